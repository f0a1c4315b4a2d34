"""ipu_compiler.compile: a Python function as one program on the IPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ipufeed.device import outside, params
from ipufeed.device.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError, PlacementError


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
        ValueError: The results hold an EstimatorSpec.
    """
    import tensorflow as tf

    check_placement()
    wrapped = checking_results(computation)
    if not tf.executing_eagerly():
        if params.executor() == "xla":
            return with_xla(wrapped, inputs)
        with outside.building(traced=False):
            return without_xla(wrapped, inputs)
    if params.executor() == "xla":
        with (
            contextlib.suppress(outside.NeedsExecutor),
            outside.building(traced=True),
        ):
            return compile_eagerly(wrapped, inputs, jit=True)
    with outside.building(traced=True):
        return compile_eagerly(wrapped, inputs, jit=False)


def check_placement() -> None:
    """The device scope must name an IPU.

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
        ordinal_of(device)
    except DeviceOrdinalError as error:
        raise PlacementError(
            "The computation is not placed on an IPU device. Build it inside "
            '`with ipu_scope("/device:IPU:0"):`.'
        ) from error


def checking_results(computation: Callable[..., Any]) -> Callable[..., Any]:
    """`computation`, whose results are looked at."""
    import functools

    @functools.wraps(computation)
    def checked(*arguments: Any) -> Any:
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


def compile_eagerly(computation: Callable[..., Any], inputs: Any, *, jit: bool) -> Any:
    """In eager mode the program runs at once; its results follow the same rules."""
    import tensorflow as tf

    arguments = [] if inputs is None else list(inputs)
    structure: list[Any] = []

    def program(*values: Any) -> Any:
        results = computation(*values)
        is_sequence = isinstance(results, (list, tuple))
        flat = list(results) if is_sequence else [results]
        kept = [r for r in flat if r is not None and not isinstance(r, tf.Operation)]
        structure[:] = [bool(kept)]
        return kept

    tensors = tf.nest.map_structure(tf.convert_to_tensor, arguments)
    results = tf.function(program, jit_compile=jit, autograph=False)(*tensors)
    return list(results) if structure[0] else None


def with_xla(computation: Callable[..., Any], inputs: Any) -> Any:
    """The program as one compiled one, unless it holds ops for the host."""
    import tensorflow as tf
    from tensorflow.python.compiler.xla import xla

    graph = tf.compat.v1.get_default_graph()
    first_op = len(graph.get_operations())
    with outside.building(traced=False) as program:
        results = xla.compile.__wrapped__(computation, inputs)
    if program.has_outside:
        outside.take_back_compilation(graph, first_op)
    return results


def without_xla(computation: Callable[..., Any], inputs: Any) -> Any:
    """The same results from TensorFlow's executor, op by op."""
    import tensorflow as tf

    arguments = [] if inputs is None else list(inputs)
    tensors = tf.nest.map_structure(tf.convert_to_tensor, arguments)
    results = computation(*tensors)
    if isinstance(results, dict) or (
        isinstance(results, (list, tuple))
        and any(isinstance(result, (dict, list, tuple)) for result in results)
    ):
        return tf.nest.map_structure(tf.identity, results)
    flat = list(results) if isinstance(results, (list, tuple)) else [results]
    flat = [result for result in flat if result is not None]
    operations = [result for result in flat if isinstance(result, tf.Operation)]
    kept = [result for result in flat if not isinstance(result, tf.Operation)]
    if not kept:
        return tf.group(*operations)
    with tf.control_dependencies(operations):
        return [tf.identity(result) for result in kept]
