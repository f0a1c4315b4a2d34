"""Rows of a tensor: their ids, and a gather with a dense gradient."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_tensor
from ipufeed.tf_types import Tensor, TensorLike


def as_ids(name: str, ids: TensorLike) -> Tensor:
    """Converts ids of rows to int32 or int64, in which each keeps its value.

    Args:
        name: The argument's name, for the error.
        ids: Integers.

    Raises:
        TypeError: They are not integers.
    """
    if isinstance(ids, (list, tuple)) and not ids:
        return tf.zeros([0], tf.int32)  # which converts to float32
    tensor = as_tensor(name, ids)
    if not tensor.dtype.is_integer or tensor.dtype.is_quantized:
        raise TypeError(
            f"`{name}` must be integers, the ids of rows, got {tensor.dtype.name}: use "
            "tf.cast(..., tf.int32)."
        )
    if tensor.dtype in (tf.int32, tf.int64):
        return tensor
    if tensor.dtype == tf.uint64:  # a larger id is outside of each table
        tensor = tf.minimum(tensor, tf.constant(tf.int64.max, tf.uint64))
    fits = tensor.dtype.size < 4
    return tf.cast(tensor, tf.int32 if fits else tf.int64)


def check_shape(name: str, tensor: Tensor) -> None:
    """Raises ValueError unless an argument's shape is fully defined."""
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"The shape of `{name}` must be fully defined, got {tensor.shape}: use "
            "set_shape, or a batch without a remainder."
        )


def take_rows(table: TensorLike, ids: TensorLike, inside: TensorLike) -> Tensor:
    """Gathers rows, with zeros where `inside` is false.

    The gradient is a tensor of the table's shape, never slices, for optimizers and
    accumulators; gradients of equal ids are summed. Sums of 16-bit floats are computed in
    float32.

    Args:
        table: [rows, ...].
        ids: Integers of any shape.
        inside: Whether an id is that of a row; of ids' shape.

    Returns:
        ids.shape + table.shape[1:].
    """
    safe = tf.cast(tf.where(inside, ids, tf.zeros_like(ids)), tf.int32)
    inner = [1] * (table.shape.rank - 1)
    mask = tf.reshape(inside, tf.concat([tf.shape(ids), inner], axis=0))
    rows = table.shape.as_list()[0]
    if rows is None:
        rows = tf.shape(table)[0]

    # Ids and mask are arguments: in a version 1 graph custom_gradient takes the variables
    # that captured tensors are computed from for those of the function, and fails.
    def take(table: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        def gradient(dy: Tensor) -> tuple[Tensor, None, None]:
            kept = tf.where(mask, dy, tf.zeros_like(dy))
            wide = tf.float32 if dy.dtype.size < 4 else dy.dtype
            total = tf.math.unsorted_segment_sum(tf.cast(kept, wide), ids, rows)
            return tf.cast(total, dy.dtype), None, None

        found = tf.gather(table, ids)
        return tf.where(mask, found, tf.zeros_like(found)), gradient

    return tf.custom_gradient(take)(table, safe, mask)


def with_dense_gradient(table: TensorLike) -> Tensor:
    """Returns a table whose gradient is a tensor, also where rows of it are gathered.

    For functions of TensorFlow that gather: the slices of a gather's gradient need an
    update of single rows, which XLA has for few optimizers.
    """

    def pass_on(table: Tensor) -> Tensor:
        return tf.identity(table), tf.convert_to_tensor

    return tf.custom_gradient(pass_on)(tf.convert_to_tensor(table))
