"""What an optimizer keeps, in the host's memory: it is on the IPU for the update only.

    remote buffers --moved--> IPU: update --moved--> remote buffers

A remote buffer is a variable that the program has from the start and reads there alone, in
one move. On the simulated device both memories are the host's: a move is a copy, a slice
in a trace, and a line of its own in the memory report (docs/pipelines.md).

Source: Graphcore's `offload_weight_update_variables`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipufeed import _native


def with_remote(handles: list[Any], update: Callable[[], Any]) -> Any:
    """Builds an update around which variables are moved to the IPU and back.

    Args:
        handles: Of the variables.
        update: Builds it; gives the operation.

    Returns:
        The operation of all of it.
    """
    import tensorflow as tf

    loads = [move(each, number, stores=False) for number, each in enumerate(handles)]
    with tf.control_dependencies(loads):
        done = update()
    with tf.control_dependencies([done]):
        stores = [
            move(each, number, stores=True) for number, each in enumerate(handles)
        ]
    return tf.group(done, *stores)


def move(handle: Any, number: int, *, stores: bool) -> Any:
    """Moves a variable's value; gives the operation."""
    import tensorflow as tf

    dtype, shape = described(handle)
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
    value = tf.ensure_shape(value, shape)
    moved = _native.load().ipufeed_remote(value, number=number, stores=stores)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=moved)


def described(handle: Any) -> tuple[Any, Any]:
    """Dtype and shape of a variable, by its handle."""
    import tensorflow as tf
    from tensorflow.python.ops import resource_variable_ops

    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    (found,) = data.shape_and_type
    return tf.as_dtype(found.dtype), tf.TensorShape(found.shape)


def is_offloaded(handle: Any) -> bool:
    """Whether it is worth a move: not a single number, such as a step's."""
    import tensorflow as tf

    if handle.dtype != tf.resource:
        return False
    _, shape = described(handle)
    return bool(shape.is_fully_defined() and shape.num_elements() > 1)
