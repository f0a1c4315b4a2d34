"""ipu_compiler.compile: a Python function as one program on the IPU."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from ipufeed.device.program import executor, outside_compilation, sharding
from ipufeed.device.program.replication import refuse_replicas
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError, PlacementError
from ipufeed.queues.chain import ordered
from ipufeed.queues.placement import check_noted


def compile(computation: Callable[..., Any], inputs: Any = None) -> Any:
    """Builds a program of what `computation` builds, and the op that runs it.

        with ipu_scope("/device:IPU:0"):
            result = compile(my_net, [x, y])
        with tf.compat.v1.Session() as session:
            session.run(result, feed_dict={...})

    Args:
        computation: Takes as many arguments as there are inputs, and returns tensors (any
            structure of them), operations, or tensors and then operations in a list.
        inputs: Values for its arguments. A Python list of N dimensions is a nested list of
            scalars, not an array: convert it first.

    Returns:
        What `computation` returns, but: a list of one for a single tensor; an operation for
        None or for operations alone; tensors without the operations that follow them, which
        run with them.

    Raises:
        PlacementError: No op that `computation` builds is on an IPU, and none that it
            returns: use `ipu_scope`, around the call or in it.
        TypeError: `inputs` is not a list or tuple.
        ValueError: The results hold an EstimatorSpec.
    """
    import tensorflow as tf

    inputs = checked_inputs(inputs)
    wrapped = checking_results(computation)
    if not tf.executing_eagerly():
        if executor.executor() == "xla":
            return with_xla(wrapped, inputs)
        with outside_compilation.building(traced=False):
            return without_xla(wrapped, inputs)
    if executor.executor() == "xla":
        with (
            contextlib.suppress(outside_compilation.NeedsExecutor),
            outside_compilation.building(traced=True),
        ):
            return compile_eagerly(wrapped, inputs, jit=True)
    outside_compilation.refuse_precompile()
    with outside_compilation.building(traced=True):
        return compile_eagerly(wrapped, inputs, jit=False)


NOT_PLACED = (
    "The computation is not placed on an IPU device. Build it inside "
    '`with ipu_scope("/device:IPU:0"):`.'
)


def ordinal_of_ops(operations: Any) -> int:
    """The number of the IPU that ops are on: of the first that is on any.

    What they call counts, too, such as the bodies of loops.

    Raises:
        PlacementError: None of them is, and not all are NoOps.
    """
    is_empty = True
    for op in sharding.with_called(operations):
        with contextlib.suppress(DeviceOrdinalError):
            return ordinal_of(op.device)
        is_empty = is_empty and op.type == "NoOp"
    if is_empty:
        return 0
    raise PlacementError(NOT_PLACED)


def ops_of(results: Any) -> list[Any]:
    """The operations that a computation has returned, or that make its results."""
    import tensorflow as tf

    return [
        each if isinstance(each, tf.Operation) else each.op
        for each in tf.nest.flatten(results)
        if isinstance(each, (tf.Operation, tf.Tensor))
    ]


def place(graph: Any, first_op: int, ordinal: int) -> None:
    """Puts the ops of a program that have no device on its IPU.

    The scope may have been around the call, or in the computation.

    Args:
        graph: A graph.
        first_op: How many operations it had before the program.
        ordinal: The IPU's number.

    Raises:
        ValueError: A queue that the program uses belongs to another IPU.
    """
    check_noted(graph, first_op, ordinal)
    for op in graph.get_operations()[first_op:]:
        if not op.device:
            op._set_device(f"/device:IPU:{ordinal}")


def checked_inputs(inputs: Any) -> list[Any]:
    """The inputs as a list; None for no inputs.

    Raises:
        TypeError: Another type, such as a tensor: its rows would become the inputs.
    """
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"`inputs` must be a list or a tuple, got {type(inputs).__name__}: give "
            "`[x]` for a single input x."
        )
    return list(inputs)


def checking_results(computation: Callable[..., Any]) -> Callable[..., Any]:
    """`computation`, whose results are checked, and whose queue ops are in order."""
    import functools

    @functools.wraps(computation)
    def checked(*arguments: Any) -> Any:
        with ordered():
            results = computation(*arguments)
        refuse_specs(results)
        return results

    return checked


def refuse_specs(results: Any) -> None:
    """Looks for estimators' specs in results; they are tuples themselves.

    Raises:
        ValueError: There is one.
    """
    if type(results).__name__ in ("EstimatorSpec", "IPUEstimatorSpec"):
        raise ValueError(
            "Your computation output contains an EstimatorSpec or IPUEstimatorSpec "
            "object. It cannot be an output of a program: return its tensors."
        )
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (list, tuple)):
        for result in results:
            refuse_specs(result)


def compile_eagerly(
    computation: Callable[..., Any], inputs: list[Any], *, jit: bool
) -> Any:
    """In eager mode the program runs at once; its results follow the same rules."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    returns_tensors: list[bool] = []

    def program(*values: Any) -> Any:
        results = computation(*values)
        if is_structured(results):
            returns_tensors[:] = [True]
            return results
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        kept = [r for r in flat if r is not None and not isinstance(r, tf.Operation)]
        returns_tensors[:] = [bool(kept)]
        return kept

    tensors = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    function = tf.function(program, jit_compile=jit, autograph=False)
    with contextlib.ExitStack() as stack:
        try:
            ordinal_of(context.context().device_name)
        except DeviceOrdinalError:  # the scope is in the computation, if there is one
            traced = function.get_concrete_function(*tensors)
            ordinal = ordinal_of_ops(traced.graph.get_operations())
            stack.enter_context(tf.device(f"/device:IPU:{ordinal}"))
        results = function(*tensors)
    return results if returns_tensors[0] else None


def is_structured(results: Any) -> bool:
    """Whether the results are more than a value, or a flat list or tuple of values."""
    if isinstance(results, dict):
        return True
    return isinstance(results, (list, tuple)) and any(
        isinstance(result, (dict, list, tuple)) for result in results
    )


def with_xla(computation: Callable[..., Any], inputs: list[Any]) -> Any:
    """The program as one compiled one, unless it holds ops for the host."""
    import tensorflow as tf
    from tensorflow.python.compiler.xla import xla

    graph = tf.compat.v1.get_default_graph()
    first_op = len(graph.get_operations())
    with outside_compilation.building(
        traced=False, name=name_of(computation)
    ) as program:
        results = xla.compile.__wrapped__(computation, inputs)
    ordinal = ordinal_of_ops(graph.get_operations()[first_op:])
    place(graph, first_op, ordinal)
    if program.has_outside:
        refuse_replicas(ordinal, graph.get_operations()[first_op:])
        outside_compilation.take_back_compilation(graph, first_op)
    else:
        name_program(graph, first_op, computation)
        sharding.mark_program(graph.get_operations()[first_op:])
    return results


def name_of(computation: Callable[..., Any]) -> str:
    """What its author calls it; "" for what has no name, such as a lambda."""
    name = str(getattr(inspect.unwrap(computation), "__name__", ""))
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) else ""


def name_program(graph: Any, first_op: int, computation: Callable[..., Any]) -> None:
    """Puts the computation's name into that of the program, which TensorFlow numbers.

    TensorFlow calls the function that it makes of ops after their mark.
    """
    import tensorflow as tf

    name = name_of(computation)
    if not name:
        return
    for op in graph.get_operations()[first_op:]:
        mark = op.node_def.attr.get(outside_compilation.COMPILE_ATTR)
        if mark is not None:
            named = tf.compat.v1.AttrValue(s=f"{name}__".encode() + mark.s)
            op._set_attr(outside_compilation.COMPILE_ATTR, named)


def without_xla(computation: Callable[..., Any], inputs: list[Any]) -> Any:
    """The same results from TensorFlow's executor, op by op."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    tensors = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    first_op = len(graph.get_operations())
    with recorded_variables() as made:
        results = computation(*tensors)
    ordinal = ordinal_of_ops([*graph.get_operations()[first_op:], *ops_of(results)])
    refuse_replicas(ordinal, graph.get_operations()[first_op:])
    results = after_effects(graph, first_op, results, made)
    place(graph, first_op, ordinal)
    return results


@contextlib.contextmanager
def recorded_variables() -> Iterator[list[Any]]:
    """Lists the variables that are made within it, whichever collection they are in."""
    import tensorflow as tf

    made: list[Any] = []

    def make(next_creator: Any, **arguments: Any) -> Any:
        made.append(next_creator(**arguments))
        return made[-1]

    with tf.variable_creator_scope(make):
        yield made


def after_effects(graph: Any, first_op: int, results: Any, made: list[Any]) -> Any:
    """The results of a program as `compile` gives them, which wait for its effects.

    Args: See side_effects.
    """
    import tensorflow as tf

    effects = side_effects(graph, first_op, made)
    if not graph.building_function:
        outside_compilation.mark_program(graph, first_op)
    if is_structured(results):
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


# Stateful ops that act on nothing, or not when the program runs.
NO_EFFECT = {
    "IpufeedHostNumber",
    "IpufeedInfeedCreate",
    "IpufeedInfeedDelete",
    "IpufeedOutfeedDelete",
    "IpufeedSeed",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
    "VarHandleOp",
    "VarIsInitializedOp",
}


def side_effects(graph: Any, first_op: int, made: list[Any]) -> list[Any]:
    """The ops of a program that run though nothing needs their results.

    A compiled program has no ops that it leaves out, an assignment whose result is not
    taken included; the executor runs what is asked for. What gives the program's variables
    their first values is not a part of it.

    Args:
        graph: A graph.
        first_op: How many operations it had before the program.
        made: The variables that the program has made.
    """
    if graph.building_function:  # there TensorFlow runs them by itself
        return []
    operations = graph.get_operations()[first_op:]
    initializing = initializing_ops(set(operations), made)
    context = graph._get_control_flow_context()
    return [
        op
        for op in operations
        if op.op_def.is_stateful
        and op.type not in NO_EFFECT
        and op not in initializing
        # Ops in a loop or a branch run with it.
        and op._get_control_flow_context() is context
    ]


def initializing_ops(operations: set[Any], variables: list[Any]) -> set[Any]:
    """The initializers of variables, and the ops among `operations` that these need."""
    found: set[Any] = set()
    waiting = [variable.initializer for variable in variables]
    while waiting:
        op = waiting.pop()
        if op not in operations or op in found:
            continue
        found.add(op)
        waiting += [tensor.op for tensor in op.inputs]
        waiting += list(op.control_inputs)
    return found
