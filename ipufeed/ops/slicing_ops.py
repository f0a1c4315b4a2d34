"""Copies many slices of rows at once.

    for k: dst[dst_offsets[k] : + num_elems[k]] = src[src_offsets[k] : + num_elems[k]]

as one gather: for each row of the result, the slice that covers it, and its source row.
Where slices overlap, the last one counts. Rows that `src` does not have are zeros; rows
that `dst` does not have are dropped.
"""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_int, as_int32, as_tensor, flags_checked
from ipufeed.ops.rows import take_rows
from ipufeed.tf_types import Tensor, TensorLike


@flags_checked
def sequence_slice(
    dst: TensorLike,
    src: TensorLike,
    num_elems: TensorLike,
    src_offsets: TensorLike,
    dst_offsets: TensorLike,
    zero_unused: bool,
) -> Tensor:
    """Writes slices of rows of a tensor into another one.

    Args:
        dst: [rows, ...], the tensor to write into.
        src: [other rows, ...], of the same dtype and inner shape.
        num_elems: Integers [slices], the rows of each slice.
        src_offsets: Integers [slices], its first row in src. Rows of a slice that src does
            not have are zeros, without a gradient.
        dst_offsets: Integers [slices], its first row in dst. Rows that dst does not have
            are dropped.
        zero_unused: Whether rows of dst that no slice covers become zero; else they are
            unchanged.

    Returns:
        A tensor like dst.

    Raises:
        TypeError: The dtypes do not match, or numbers or offsets are not integers.
        ValueError: The shapes do not match.
    """
    dst, src = as_tensor("dst", dst), as_tensor("src", src)
    counts, from_rows, to_rows = _parts(
        num_elems=num_elems, src_offsets=src_offsets, dst_offsets=dst_offsets
    )
    if not (counts.shape == from_rows.shape == to_rows.shape) or not _is_list(counts):
        raise ValueError(
            "num_elems, src_offsets and dst_offsets must have matching, nonzero shapes of "
            f"rank 1. Got {counts.shape}, {from_rows.shape} and {to_rows.shape}."
        )
    if dst.dtype != src.dtype:
        raise TypeError(
            f"src and dst must be of one dtype, got {src.dtype.name} and {dst.dtype.name}."
        )
    if not dst.shape[1:].is_compatible_with(src.shape[1:]):
        raise ValueError(
            f"src and dst inner shapes must match. Got {src.shape} and {dst.shape}."
        )
    return _sliced(dst, src, counts, from_rows, to_rows, zero_unused)


def sequence_slice_unpack(
    src: TensorLike, num_elems: TensorLike, src_offsets: TensorLike, total_elements: int
) -> Tensor:
    """Writes slices of rows consecutively into a new tensor.

    Args:
        src: [rows, ...].
        num_elems: Integers [slices], the rows of each slice.
        src_offsets: Integers [slices], its first row in src; see sequence_slice.
        total_elements: The rows of the result; those after the slices are zero.

    Returns:
        [total_elements, ...].

    Raises:
        TypeError: Numbers, offsets or `total_elements` are not integers.
        ValueError: The shapes do not match.
    """
    src, total_elements = (
        as_tensor("src", src),
        as_int("total_elements", total_elements),
    )
    counts, from_rows = _parts(num_elems=num_elems, src_offsets=src_offsets)
    if counts.shape != from_rows.shape or not _is_list(counts):
        raise ValueError(
            "num_elems and src_offsets must have matching, nonzero shapes of rank 1. Got "
            f"{counts.shape} and {from_rows.shape}."
        )
    dst = tf.zeros([total_elements, *tf.unstack(tf.shape(src))[1:]], src.dtype)
    dst.set_shape([total_elements, *src.shape.as_list()[1:]])
    to_rows = tf.cumsum(counts, exclusive=True)
    return _sliced(dst, src, counts, from_rows, to_rows, True)


@flags_checked
def sequence_slice_pack(
    dst: TensorLike,
    src: TensorLike,
    num_elems: TensorLike,
    dst_offsets: TensorLike,
    zero_unused: bool,
) -> Tensor:
    """Writes consecutive slices of a tensor to offsets in another one.

    Args:
        dst: [rows, ...].
        src: [other rows, ...].
        num_elems: Integers [slices], the rows of each slice.
        dst_offsets: int32 [slices], its first row in dst.
        zero_unused: See sequence_slice.

    Returns:
        A tensor like dst.

    Raises:
        TypeError: The dtypes do not match, or numbers or offsets are not integers.
        ValueError: The shapes do not match.
    """
    (counts,) = _parts(num_elems=num_elems)
    from_rows = tf.cumsum(counts, exclusive=True)
    return sequence_slice(dst, src, counts, from_rows, dst_offsets, zero_unused)


def _parts(**arguments: TensorLike) -> list[Tensor]:
    """Converts arguments to int64, in which their sums fit; TypeError for others."""
    return [tf.cast(as_int32(*each), tf.int64) for each in arguments.items()]


def _is_list(tensor: Tensor) -> bool:
    return bool(tensor.shape.rank == 1 and tensor.shape.as_list() != [0])


def _sliced(
    dst: Tensor,
    src: Tensor,
    counts: Tensor,
    from_rows: Tensor,
    to_rows: Tensor,
    zero_unused: bool,
) -> Tensor:
    row = tf.range(tf.shape(dst, tf.int64)[0])[:, None]
    covers = (row >= to_rows) & (row < to_rows + counts)  # [rows, slices]
    number = tf.range(1, tf.shape(counts)[0] + 1)
    last = tf.reduce_max(tf.where(covers, number, 0), axis=1)  # 0: none
    shift = tf.gather(from_rows - to_rows, tf.maximum(last - 1, 0))
    source = row[:, 0] + shift
    inside = (last > 0) & (source >= 0) & (source < tf.shape(src, tf.int64)[0])
    mask = tf.reshape(last > 0, [-1, *[1] * (dst.shape.rank - 1)])
    others = tf.zeros_like(dst) if zero_unused else dst
    result = tf.where(mask, take_rows(src, source, inside), others)
    result.set_shape(dst.shape)
    return result
