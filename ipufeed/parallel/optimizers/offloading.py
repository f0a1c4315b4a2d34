"""Offloads an optimizer's state to the host's memory, except during the update.

    remote buffers --moved--> IPU: update --moved--> remote buffers

A remote buffer is a variable that the program reads and writes only by moves. On the
simulated device both memories are the host's: a move is a copy, with a slice in a trace and
a line in the memory report (docs/pipelines.md).

Source: Graphcore's `offload_weight_update_variables`.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from ipufeed import _native
from ipufeed.tf_types import DType, Operation, Shape, Tensor


def with_remote(handles: list[Tensor], update: Callable[[], Operation]) -> Operation:
    """Builds an update, preceded and followed by moves of variables.

    Args:
        handles: The handles of the variables.
        update: Builds the update; returns its operation.

    Returns:
        The operation of the update and the moves.
    """
    loads = [move(each, number, stores=False) for number, each in enumerate(handles)]
    with tf.control_dependencies(loads):
        done = update()
    with tf.control_dependencies([done]):
        stores = [
            move(each, number, stores=True) for number, each in enumerate(handles)
        ]
    return tf.group(done, *stores)


def move(handle: Tensor, number: int, *, stores: bool) -> Operation:
    """Moves a variable's value; returns the operation."""
    dtype, shape = described(handle)
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
    value = tf.ensure_shape(value, shape)
    moved = _native.load().ipufeed_remote(value, number=number, stores=stores)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=moved)


def described(handle: Tensor) -> tuple[DType, Shape]:
    """Returns the dtype and shape of a variable, by its handle."""
    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    (found,) = data.shape_and_type
    return tf.as_dtype(found.dtype), tf.TensorShape(found.shape)


def is_offloaded(handle: Tensor) -> bool:
    """Whether a variable is offloaded: a scalar, such as a step counter, is not."""
    if handle.dtype != tf.resource:
        return False
    _, shape = described(handle)
    return bool(shape.is_fully_defined() and shape.num_elements() > 1)
