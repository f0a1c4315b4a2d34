"""Traces the stages of a pipeline into one graph, with their gradients."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ipufeed.device.program.sharding import with_called
from ipufeed.parallel.optimizers.lifting import variables_outside
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.partition import Traced
from ipufeed.parallel.pipeline.schedules import Position, Schedule
from ipufeed.python_ops import PYTHON_OPS
from ipufeed.queues.autograph import as_user_function
from ipufeed.queues.structure import body_arguments

_accumulation_count: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "ipufeed_accumulation_count", default=None
)


@contextlib.contextmanager
def accumulating(count: Any) -> Iterator[None]:
    """Within it the stages of a pipeline with this many mini-batches are built."""
    token = _accumulation_count.set(count)
    try:
        yield
    finally:
        _accumulation_count.reset(token)


def current_accumulation_count() -> Any:
    """Returns the mini-batches of an execution of the pipeline whose stages are built.

    None outside of a pipeline; a tensor if it is known only when the program runs.
    """
    return _accumulation_count.get()


@dataclass
class Model:
    """Stages that have been traced.

    Attributes:
        traced: Their graph, and which op is whose.
        outputs: What the last stage has returned: tensors of the graph.
        structure: Likewise, as it was returned: a tensor, a list or a dict.
        optimizer: What the optimizer function has returned, if there is one.
        gradients: With it, gradients and variables; a gradient may be None.
        captured: Gradients in the middle of the stages, by tag: captured.py.
    """

    traced: Traced
    outputs: list[Any]
    structure: Any
    optimizer: OptimizerFunctionOutput | None = None
    gradients: list[tuple[Any, Any]] = field(default_factory=list)
    captured: dict[str, Any] = field(default_factory=dict)


def trace(
    stages: list[list[Callable[..., Any]]],
    schedule: Schedule,
    inputs: list[Any],
    infeed_queue: Any,
    optimizer_function: Callable[..., Any] | None,
) -> Model:
    """Builds all stages, and their gradients, in a graph of their own.

    Args:
        stages: The functions.
        schedule: Their positions.
        inputs: Tensors of the current graph, for the first stage.
        infeed_queue: What the first stage gets after these, or None.
        optimizer_function: See `pipeline`.

    Raises:
        TypeError, ValueError: A stage returns what it must not, or takes other tensors
            than its arguments.
    """
    graph = new_graph("pipeline")
    traced = Traced(graph)
    places = {(each.index, each.branch): each for each in schedule.positions}
    if schedule.training:
        for stage, devices in enumerate(schedule.devices):
            for branch in range(len(devices)):
                back = schedule.length - 1 - stage
                traced.backward[places[stage, branch]] = places[back, branch]
    with graph.as_default():
        arguments: list[Any] = [graph.capture(tensor) for tensor in inputs]
        keywords: dict[str, Any] = {}
        if infeed_queue is not None:
            with owned(traced, places[0, 0]):
                element = infeed_queue._dequeue()
            more, keywords = body_arguments(element)
            arguments = [*arguments, *more]
        allowed = {id(inside) for _, inside in graph.captures}
        structure: Any = None
        for number, concurrent in enumerate(stages):
            outputs: list[Any] = []
            for branch, function in enumerate(concurrent):
                position = places[number, branch]
                check_arity(function, position, stages, arguments, keywords)
                with owned(traced, position), named(function, position):
                    first = len(graph.get_operations())
                    structure = call(function, arguments, keywords)
                    check_python(graph.get_operations()[first:], number)
                    outputs += tensors_of(structure, number, number == len(stages) - 1)
                check_captures(graph, allowed)
                check_sources(traced, position, arguments, keywords)
            arguments, keywords = outputs, {}
        if len(stages[-1]) > 1 or not isinstance(structure, dict):
            structure = outputs[0] if len(outputs) == 1 else outputs
        model = Model(traced, outputs, structure)
        if optimizer_function is not None:
            differentiate(model, optimizer_function)
    return model


def new_graph(name: str) -> Any:
    """A graph for a function, inside the current one.

    In a version 1 graph `get_variable` finds the same variables in both.
    """
    from tensorflow.python.framework import func_graph

    share_variables()
    return func_graph.FuncGraph(name)


def share_variables() -> None:
    """Makes `get_variable` find the current graph's variables in the graphs inside it."""
    import tensorflow as tf
    from tensorflow.python.ops import variable_scope

    if not tf.executing_eagerly():
        variable_scope._get_default_variable_store()
        variable_scope.get_variable_scope()


@contextlib.contextmanager
def resource_variables() -> Iterator[None]:
    """Within it `get_variable` makes resource variables, as in a compiled program."""
    import tensorflow as tf

    scope = tf.compat.v1.get_variable_scope()
    before = scope.use_resource
    scope.set_use_resource(True)
    try:
        yield
    finally:
        scope.set_use_resource(before)


@contextlib.contextmanager
def owned(traced: Traced, position: Position) -> Iterator[None]:
    """What is built within it belongs to the position."""
    first = len(traced.graph.get_operations())
    yield
    for op in traced.graph.get_operations()[first:]:
        traced.owners[op] = position


@contextlib.contextmanager
def named(function: Callable[..., Any], position: Position) -> Iterator[None]:
    """An error within it is noted to be the stage's."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"In stage {position.stage} of the pipeline ({position.label}, "
            f"`{name_of(function)}`)."
        )
        raise


def call(
    function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """Builds one stage; what has an effect in it happens in the order of the source.

    In a tf.function, that is. A version 1 program says itself what comes after what.
    """
    import tensorflow as tf
    from tensorflow.python.framework import auto_control_deps

    runs = as_user_function(function)
    if not tf.compat.v1.executing_eagerly_outside_functions():
        return runs(*arguments, **keywords)
    with auto_control_deps.AutomaticControlDependencies():
        return runs(*arguments, **keywords)


def check_arity(
    function: Callable[..., Any],
    position: Position,
    stages: list[list[Callable[..., Any]]],
    arguments: list[Any],
    keywords: dict[str, Any],
) -> None:
    """Finds out before tracing whether a stage takes what it will get.

    Raises:
        TypeError: It does not; the error names both stages.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        number = position.stage
        if number == 0:
            gets = "`inputs` and the infeed give it"
        else:
            names = ", ".join(f"`{name_of(each)}`" for each in stages[number - 1])
            gets = f"stage {number - 1} ({names}) gives it"
        count = len(arguments) + len(keywords)
        named = f", by name: {', '.join(keywords)}" if keywords else ""
        raise TypeError(
            f"Stage {number} of the pipeline ({position.label}, `{name_of(function)}`) "
            f"cannot be called with the {count} tensor{'s' if count != 1 else ''} that "
            f"{gets}{named}: {error}. It is `{name_of(function)}{signature}`."
        ) from error


def name_of(function: Any) -> str:
    """What a stage is called in its source."""
    return str(getattr(function, "__name__", type(function).__name__))


def tensors_of(structure: Any, stage: int, is_last: bool) -> list[Any]:
    """What a stage has returned, as tensors; operations only have to run.

    Raises:
        TypeError: It is more than a flat list, or has something else than numbers.
    """
    import tensorflow as tf

    if isinstance(structure, dict):
        if not is_last:
            raise TypeError(
                f"Stage {stage} of the pipeline returns a dict. Only the last stage may: "
                "return a list of tensors, which are the next stage's arguments."
            )
        values = tf.nest.flatten(structure)
    elif isinstance(structure, (list, tuple)):
        values = list(structure)
    else:
        values = [structure]
    found = []
    for value in values:
        if value is None or isinstance(value, tf.Operation):
            continue
        if isinstance(value, (list, tuple, dict)):
            raise TypeError(
                f"Stage {stage} of the pipeline returns a {type(value).__name__} inside "
                "its results: return a flat list of tensors."
            )
        tensor = tf.convert_to_tensor(value)
        if tensor.dtype in (tf.string, tf.resource, tf.variant):
            raise TypeError(
                f"Stage {stage} of the pipeline returns {tensor.name} of "
                f"{tensor.dtype.name}: between IPUs, and to the outfeed, go numbers only."
            )
        found.append(tensor)
    return found


def check_python(ops: list[Any], stage: int) -> None:
    """Refuses what calls back into Python: it cannot be compiled.

    Raises:
        TypeError: One of the ops of a stage does, or of a loop or a branch in it.
    """
    for op in with_called(ops):
        if op.type in PYTHON_OPS:
            raise TypeError(
                f"Stage {stage} of the pipeline has {op.name}, a call of Python "
                "(tf.py_function, tf.numpy_function): IPUs run compiled programs. Call it "
                "in the dataset (`dataset.map`), or on what the outfeed gives."
            )


def check_captures(graph: Any, allowed: set[int]) -> None:
    """Refuses tensors of the program around the pipeline that are not an argument.

    Raises:
        ValueError: A stage uses one.
    """
    import tensorflow as tf

    for outside, inside in graph.captures:
        if id(inside) in allowed or inside.dtype == tf.resource:
            continue
        if isinstance(outside, tf.Tensor) and is_ours(outside):
            continue
        name = getattr(outside, "name", None) or "an eager tensor"
        raise ValueError(
            f"Trying to capture the tensor {name} which is not a resource. This tensor "
            "needs to be passed as either part of the `input` or `infeed_queue` of the "
            "pipeline."
        )


def is_ours(tensor: Any) -> bool:
    """Whether it is the number of a queue."""
    import tensorflow as tf

    if isinstance(tensor, tf.__internal__.EagerTensor):
        return bool(tensor.dtype == tf.int64 and tensor.shape.rank == 0)
    return bool(tensor.op.type == "IpufeedHostNumber")


def check_sources(
    traced: Traced, position: Position, arguments: list[Any], keywords: dict[str, Any]
) -> None:
    """Refuses tensors of another stage that are not an argument.

    Raises:
        ValueError: A stage uses one.
    """
    given = {id(each) for each in [*arguments, *keywords.values()]}
    for op, owner in traced.owners.items():
        if owner != position or op.type.startswith("Ipufeed"):
            continue
        for tensor in op.inputs:
            if tensor.op.type in (
                "Placeholder",
                "Const",
            ):  # of both, such as a variable
                continue
            source = traced.owners.get(tensor.op)
            if source in (None, position) or id(tensor) in given:
                continue
            raise ValueError(
                f"Trying to capture the tensor {tensor.name} which is not a resource: "
                f"stage {position.label} of the pipeline uses a tensor of stage "
                f"{source.label}. Return it from that stage, and from all between them."
            )


def differentiate(model: Model, optimizer_function: Callable[..., Any]) -> None:
    """Calls the optimizer function, and builds the gradients that it asks for.

    Raises:
        TypeError: It does not take the last stage's outputs, or returns no
            OptimizerFunctionOutput.
        ValueError: There is nothing to train, or to capture.
    """
    check_takes_outputs(optimizer_function, model.outputs)
    with variables_outside():
        output = as_user_function(optimizer_function)(*model.outputs)
    if not isinstance(output, OptimizerFunctionOutput):
        raise TypeError(
            "The optimizer_function must return an OptimizerFunctionOutput object, got "
            f"{type(output).__name__}."
        )
    model.optimizer = output
    with output.captures or contextlib.nullcontext():
        model.gradients = gradients_of(output, model.traced.graph)
    if output.captures is not None:
        model.captured = output.captures.captured_gradients
    if all(gradient is None for gradient, _ in model.gradients):
        raise ValueError(
            "No gradients provided for any variable: the loss that the "
            "optimizer_function gives depends on none of them."
        )
    if output.captured_gradient_outfeed is not None and not model.captured:
        raise ValueError(
            "OptimizerFunctionOutput.captured_gradient_outfeed is given, but no gradient "
            "has been captured: mark tensors in the stages with "
            "capture_upstream_gradients, and use what it returns."
        )


def check_takes_outputs(function: Callable[..., Any], outputs: list[Any]) -> None:
    """Finds out before it is called whether the optimizer function takes the outputs.

    Raises:
        TypeError: It does not.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
        return
    try:
        signature.bind(*outputs)
    except TypeError as error:
        count = len(outputs)
        raise TypeError(
            f"The optimizer_function `{name_of(function)}` cannot be called with the "
            f"{count} tensor{'s' if count != 1 else ''} that the last stage of the "
            f"pipeline returns: {error}. It is `{name_of(function)}{signature}`."
        ) from error


def gradients_of(output: OptimizerFunctionOutput, graph: Any) -> list[tuple[Any, Any]]:
    """Gradients and variables; a gradient may be None."""
    import tensorflow as tf

    if output.is_keras:
        variables = output.variables or list(output.tape.watched_variables())
        sources = [as_variable(each) for each in variables]
        gradients = tf.gradients(output.loss, sources)
        pairs = list(zip(gradients, variables, strict=True))
    else:
        keywords = dict(output.compute_gradients_kwargs)
        known = tf.compat.v1.trainable_variables()
        if (
            not output.compute_gradients_args
            and "var_list" not in keywords
            and not known
        ):
            keywords["var_list"] = used_variables(graph)
        pairs = output.opt.compute_gradients(
            output.loss, *output.compute_gradients_args, **keywords
        )
    return [
        (None if gradient is None else tf.convert_to_tensor(gradient), variable)
        for gradient, variable in pairs
    ]


def as_variable(variable: Any) -> Any:
    """The tf.Variable, also of what Keras 3 has around it."""
    import tensorflow as tf

    return variable if isinstance(variable, tf.Variable) else variable.value


def used_variables(graph: Any) -> list[Any]:
    """The trainable variables that a traced graph reads, in the order of first use.

    In TensorFlow 2 no collection has them.
    """
    handles = {id(each.handle): each for each in graph._watched_variables}
    found = [handles.get(id(outside)) for outside in graph.external_captures]
    return [each for each in found if each is not None and each.trainable]
