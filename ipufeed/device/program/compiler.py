"""ipu_compiler.compile: a Python function as one program on the IPU."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from ipufeed.device.program import executor, outside_compilation, sharding
from ipufeed.device.program.replication import refuse_replicas
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError, PlacementError
from ipufeed.queues.chain import ordered


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
        PlacementError: The program is not placed on an IPU: use `ipu_scope`.
        TypeError: `inputs` is not a list or tuple.
        ValueError: The results hold an EstimatorSpec.
    """
    import tensorflow as tf

    ordinal = check_placement()
    inputs = checked_inputs(inputs)
    wrapped = checking_results(computation)
    if not tf.executing_eagerly():
        if executor.executor() == "xla":
            return with_xla(wrapped, inputs, ordinal)
        with outside_compilation.building(traced=False):
            return without_xla(wrapped, inputs, ordinal)
    if executor.executor() == "xla":
        with (
            contextlib.suppress(outside_compilation.NeedsExecutor),
            outside_compilation.building(traced=True),
        ):
            return compile_eagerly(wrapped, inputs, jit=True)
    outside_compilation.refuse_precompile()
    with outside_compilation.building(traced=True):
        return compile_eagerly(wrapped, inputs, jit=False)


def check_placement() -> int:
    """The number of the IPU that the device scope must name.

    Raises:
        PlacementError: It does not.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        from tensorflow.python.eager import context

        device = context.context().device_name or ""
    else:
        with tf.control_dependencies(None):
            device = tf.no_op(name="ipu_placement").device
    try:
        return ordinal_of(device)
    except DeviceOrdinalError as error:
        raise PlacementError(
            "The computation is not placed on an IPU device. Build it inside "
            '`with ipu_scope("/device:IPU:0"):`.'
        ) from error


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
        flat = results if isinstance(results, (list, tuple)) else [results]
        for result in flat:
            if type(result).__name__ in ("EstimatorSpec", "IPUEstimatorSpec"):
                raise ValueError(
                    "The computation's results contain an EstimatorSpec or "
                    "IPUEstimatorSpec object, which cannot be an output of a program. "
                    "Return its tensors."
                )
        return results

    return checked


def compile_eagerly(
    computation: Callable[..., Any], inputs: list[Any], *, jit: bool
) -> Any:
    """In eager mode the program runs at once; its results follow the same rules."""
    import tensorflow as tf

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
    results = tf.function(program, jit_compile=jit, autograph=False)(*tensors)
    return results if returns_tensors[0] else None


def is_structured(results: Any) -> bool:
    """Whether the results are more than a value, or a flat list or tuple of values."""
    if isinstance(results, dict):
        return True
    return isinstance(results, (list, tuple)) and any(
        isinstance(result, (dict, list, tuple)) for result in results
    )


def with_xla(computation: Callable[..., Any], inputs: list[Any], ordinal: int) -> Any:
    """The program as one compiled one, unless it holds ops for the host."""
    import tensorflow as tf
    from tensorflow.python.compiler.xla import xla

    graph = tf.compat.v1.get_default_graph()
    first_op = len(graph.get_operations())
    with outside_compilation.building(
        traced=False, name=name_of(computation)
    ) as program:
        results = xla.compile.__wrapped__(computation, inputs)
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


def without_xla(
    computation: Callable[..., Any], inputs: list[Any], ordinal: int
) -> Any:
    """The same results from TensorFlow's executor, op by op."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    tensors = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    first_op = len(graph.get_operations())
    results = computation(*tensors)
    refuse_replicas(ordinal, graph.get_operations()[first_op:])
    effects = side_effects(graph, first_op)
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


def side_effects(graph: Any, first_op: int) -> list[Any]:
    """The ops of a program that run though nothing needs their results.

    A compiled program has no ops that it leaves out, an assignment whose result is not
    taken included; the executor runs what is asked for.

    Args:
        graph: A graph.
        first_op: How many operations it had before the program.
    """
    import tensorflow as tf

    if graph.building_function:  # there TensorFlow runs them by itself
        return []
    initializers = {
        variable.initializer.name for variable in tf.compat.v1.global_variables()
    }
    context = graph._get_control_flow_context()
    return [
        op
        for op in graph.get_operations()[first_op:]
        if op.op_def.is_stateful
        and op.type not in NO_EFFECT
        and op.name not in initializers
        # Ops in a loop or a branch run with it.
        and op._get_control_flow_context() is context
    ]
