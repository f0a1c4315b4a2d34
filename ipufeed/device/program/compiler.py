"""ipu_compiler.compile: a Python function as one program on the IPU."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.compiler.xla import xla

from ipufeed.checks import as_tensor, check_function, check_takes
from ipufeed.device.program import executor, outside_compilation, sharding
from ipufeed.device.program.replication import refuse_replicas
from ipufeed.device.program.scopes import graph_entered
from ipufeed.device.program.variables import (
    refuse_updates,
    refusing_optimizers_in_loops,
)
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError, PlacementError
from ipufeed.queues import interrupt
from ipufeed.queues.chain import ordered
from ipufeed.queues.placement import check_noted
from ipufeed.tf_types import Graph, Nest, NestFunction, Operation, Tensor, Variable


def compile(computation: NestFunction, inputs: Nest = None) -> Nest:
    """Builds one program of the ops of `computation`, and the op that runs it.

        with ipu_scope("/device:IPU:0"):
            result = compile(my_net, [x, y])
        with tf.compat.v1.Session() as session:
            session.run(result, feed_dict={...})

    Args:
        computation: A function with an argument for each input. It returns tensors (any
            structure of them), operations, or a list of tensors and then operations.
        inputs: Values for its arguments. A Python list of N dimensions is a nested list of
            scalars, not an array: convert it first.

    Returns:
        The results of `computation`, except: a list of one for a single tensor; an
        operation for None or for operations alone; tensors without the operations that
        follow them, which run with them.

    Raises:
        PlacementError: No op that `computation` builds or returns is on an IPU: use
            `ipu_scope`, around the call or in it.
        TypeError: `inputs` is not a list or tuple of what converts to tensors, or
            `computation` not a function of them.
        ValueError: An input is None, or the results contain an EstimatorSpec.
        RefusedError: An optimizer of Keras 3 updates variables in a version 1 graph.
    """
    check_function("computation", computation)
    interrupt.watch()  # before the first program, whose errors it explains
    inputs = checked_inputs(inputs)
    check_takes("computation", computation, inputs)
    wrapped = checking_results(computation)
    if not tf.executing_eagerly():
        with graph_entered():
            if executor.executor() == "xla":
                return _with_xla(wrapped, inputs)
            with outside_compilation.building(traced=False):
                return _without_xla(wrapped, inputs)
    if executor.executor() == "xla":
        with (
            contextlib.suppress(outside_compilation.NeedsExecutor),
            outside_compilation.building(traced=True),
        ):
            return _compile_eagerly(wrapped, inputs, jit=True)
    outside_compilation.refuse_precompile()
    with outside_compilation.building(traced=True):
        return _compile_eagerly(wrapped, inputs, jit=False)


NOT_PLACED = (
    "The computation is not placed on an IPU device. Build it inside "
    '`with ipu_scope("/device:IPU:0"):`.'
)


def _ordinal_of_ops(operations: Iterable[Operation]) -> int:
    """Returns the IPU of the first of the ops that is on one.

    The ops of called functions, such as the bodies of loops, are included.

    Raises:
        PlacementError: None of them is on an IPU, and not all are NoOps.
    """
    is_empty = True
    for op in sharding.with_called(operations):
        with contextlib.suppress(DeviceOrdinalError):
            return ordinal_of(op.device)
        is_empty = is_empty and op.type == "NoOp"
    if is_empty:
        return 0
    raise PlacementError(NOT_PLACED)


def _ops_of(results: Nest) -> list[Operation]:
    """Lists the operations among a computation's results, and those of its tensors."""
    return [
        each if isinstance(each, tf.Operation) else each.op
        for each in tf.nest.flatten(results)
        if isinstance(each, (tf.Operation, tf.Tensor))
    ]


def _place(graph: Graph, first_op: int, ordinal: int) -> None:
    """Assigns the IPU of a program to its ops that have no device.

    The scope may be around the call, or in the computation.

    Args:
        graph: A graph.
        first_op: The number of its operations before the program.
        ordinal: The IPU's number.

    Raises:
        ValueError: A queue that the program uses belongs to another IPU.
    """
    check_noted(graph, first_op, ordinal)
    for op in graph.get_operations()[first_op:]:
        if not op.device:
            op._set_device(f"/device:IPU:{ordinal}")


def checked_inputs(inputs: Nest) -> list[Nest]:
    """Returns the inputs as a list; None means no inputs.

    Raises:
        TypeError: Another type, such as a tensor, whose rows would become the inputs.
        ValueError: An input is None.
    """
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"`inputs` must be a list or a tuple, got {type(inputs).__name__}: give "
            "`[x]` for a single input x."
        )
    for index, value in enumerate(inputs):
        if any(each is None for each in tf.nest.flatten(value)):
            raise ValueError(
                f"`inputs[{index}]` must be a tensor, or a value that converts to one, got "
                f"{value!r}. Leave it out, and give the argument of the function a default."
            )
    return list(inputs)


def as_tensors(inputs: list[Nest]) -> list[Nest]:
    """Converts the inputs, and what is in those that are structures.

    Raises:
        TypeError: TensorFlow cannot convert one; or ValueError, where it raises that.
    """
    return [
        tf.nest.map_structure(functools.partial(as_tensor, f"inputs[{index}]"), value)
        for index, value in enumerate(inputs)
    ]


def checking_results(computation: NestFunction) -> NestFunction:
    """Wraps `computation` to order its queue ops and check its results."""

    @functools.wraps(computation)
    def checked(*arguments: Tensor) -> Nest:
        with ordered(), refusing_optimizers_in_loops():
            results = computation(*arguments)
        _refuse_specs(results)
        return results

    return checked


def _refuse_specs(results: Nest) -> None:
    """Raises ValueError for an estimator's spec in results; a spec is a tuple itself."""
    if type(results).__name__ in ("EstimatorSpec", "IPUEstimatorSpec"):
        raise ValueError(
            "Your computation output contains an EstimatorSpec or IPUEstimatorSpec "
            "object. It cannot be an output of a program: return its tensors."
        )
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (list, tuple)):
        for result in results:
            _refuse_specs(result)


def _compile_eagerly(
    computation: NestFunction, inputs: list[Nest], *, jit: bool
) -> Nest:
    """Runs the program at once, in eager mode; the results follow the same rules."""
    from tensorflow.python.eager import context

    returns_tensors: list[bool] = []

    def program(*values: Tensor) -> Nest:
        results = computation(*values)
        if _is_structured(results):
            returns_tensors[:] = [True]
            return results
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        kept = [r for r in flat if r is not None and not isinstance(r, tf.Operation)]
        returns_tensors[:] = [bool(kept)]
        return kept

    tensors = as_tensors(inputs)
    function = tf.function(program, jit_compile=jit, autograph=False)
    with contextlib.ExitStack() as stack:
        try:
            ordinal_of(context.context().device_name)
        except DeviceOrdinalError:  # a scope can only be in the computation
            traced = function.get_concrete_function(*tensors)
            ordinal = _ordinal_of_ops(traced.graph.get_operations())
            stack.enter_context(tf.device(f"/device:IPU:{ordinal}"))
        results = function(*tensors)
    return results if returns_tensors[0] else None


def _is_structured(results: Nest) -> bool:
    """Returns whether results are neither a value nor a flat list or tuple of values."""
    if isinstance(results, dict):
        return True
    return isinstance(results, (list, tuple)) and any(
        isinstance(result, (dict, list, tuple)) for result in results
    )


def _with_xla(computation: NestFunction, inputs: list[Nest]) -> Nest:
    """Builds one compiled program, unless the computation contains ops for the host."""
    graph = tf.compat.v1.get_default_graph()
    first_op = len(graph.get_operations())
    effects: list[Operation] = []

    @functools.wraps(computation)
    def observed(*arguments: Tensor) -> Nest:
        results = computation(*arguments)
        effects.extend(outside_compilation.effects(graph, first_op))
        return results

    with outside_compilation.building(
        traced=False, name=name_of(computation)
    ) as program:
        results = xla.compile.__wrapped__(observed, as_tensors(inputs))
    if not graph.building_function:
        refuse_updates(graph.get_operations()[first_op:])
    ordinal = _ordinal_of_ops(graph.get_operations()[first_op:])
    _place(graph, first_op, ordinal)
    if program.has_outside:
        refuse_replicas(ordinal, graph.get_operations()[first_op:])
        outside_compilation.revert_compilation(graph, first_op)
        for result in tf.nest.flatten(results):
            getattr(result, "op", result)._add_control_inputs(effects)
    else:
        _name_program(graph, first_op, computation)
        sharding.mark_shards(graph.get_operations()[first_op:])
    return results


def name_of(computation: NestFunction) -> str:
    """Returns the function's name; "" for one without a name, such as a lambda."""
    name = str(getattr(inspect.unwrap(computation), "__name__", ""))
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) else ""


def _name_program(graph: Graph, first_op: int, computation: NestFunction) -> None:
    """Adds the computation's name to the program's name, which is otherwise a number.

    TensorFlow names the function that it makes of the ops by their compile attribute.
    """
    name = name_of(computation)
    if not name:
        return
    for op in graph.get_operations()[first_op:]:
        mark = op.node_def.attr.get(outside_compilation.COMPILE_ATTR)
        if mark is not None:
            named = tf.compat.v1.AttrValue(s=f"{name}__".encode() + mark.s)
            op._set_attr(outside_compilation.COMPILE_ATTR, named)


def _without_xla(computation: NestFunction, inputs: list[Nest]) -> Nest:
    """Builds the program for TensorFlow's executor, which runs it op by op."""
    graph = tf.compat.v1.get_default_graph()
    tensors = as_tensors(inputs)
    first_op = len(graph.get_operations())
    # As XLA's compile does: an op that is colocated with an input is then on the IPU.
    tensors = tf.nest.map_structure(tf.identity, tensors)
    with _recorded_variables() as made:
        results = computation(*tensors)
    if not graph.building_function:
        refuse_updates(graph.get_operations()[first_op:])
    ordinal = _ordinal_of_ops([*graph.get_operations()[first_op:], *_ops_of(results)])
    refuse_replicas(ordinal, graph.get_operations()[first_op:])
    results = _after_effects(graph, first_op, results, made)
    _place(graph, first_op, ordinal)
    return results


@contextlib.contextmanager
def _recorded_variables() -> Iterator[list[Variable]]:
    """Gives a list that collects the variables created in this context."""
    made: list[Variable] = []

    def make(next_creator: Callable[..., Variable], **arguments: Any) -> Variable:
        made.append(next_creator(**arguments))
        return made[-1]

    with tf.variable_creator_scope(make):
        yield made


def _after_effects(
    graph: Graph, first_op: int, results: Nest, made: list[Variable]
) -> Nest:
    """Returns a program's results in the form of `compile`, dependent on its effects.

    Args: See executor.side_effects.
    """
    effects = executor.side_effects(graph, first_op, made)
    if not graph.building_function:
        outside_compilation.mark_program(graph, first_op)
    if _is_structured(results):
        with tf.control_dependencies(effects):
            return tf.nest.map_structure(tf.identity, results)
    flat = list(results) if isinstance(results, (list, tuple)) else [results]
    flat = [result for result in flat if result is not None]
    operations = [result for result in flat if isinstance(result, tf.Operation)]
    kept = [result for result in flat if not isinstance(result, tf.Operation)]
    if not kept:
        return tf.group(*operations, *effects)
    with tf.control_dependencies(operations + effects):
        return [tf.identity(result) for result in kept]
