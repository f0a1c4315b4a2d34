"""Matrix products in parts, and sums by segments."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_int, as_tensor, flags_checked
from ipufeed.ops.rows import as_ids
from ipufeed.tf_types import Tensor, TensorLike

DIMENSIONS = ("a_columns", "a_rows_b_columns", "b_rows")


@flags_checked
def serialized_matmul(
    a: TensorLike,
    b: TensorLike,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiplies matrices; on an IPU in parts, which saves its memory.

    A simulated IPU computes one product, with the same result.

    Args:
        a: [..., m, k], or [..., k, m] with transpose_a.
        b: [..., k, n], or [..., n, k] with transpose_b. The axes before the matrices
            broadcast.
        serialization_factor: The number of parts, which divides the dimension.
        serialization_dimension: "a_columns" (m), "a_rows_b_columns" (k) or "b_rows" (n).
        transpose_a: Whether to transpose a.
        transpose_b: Whether to transpose b.
        name: The operations' name.

    Returns:
        [..., m, n].

    Raises:
        TypeError: The factor is not an integer.
        ValueError: The factor, the dimension or the ranks.
    """
    a, b = as_tensor("a", a), as_tensor("b", b)
    serialization_factor = as_int("serialization_factor", serialization_factor)
    if serialization_factor < 1:
        raise ValueError(
            "serialization_factor has to be at least 1, but was "
            f"{serialization_factor}."
        )
    for tensor, which in ((a, "a"), (b, "b")):
        if tensor.shape.rank is None or tensor.shape.rank < 2:
            raise ValueError(
                f"Expected tensor '{which}' to have a minimum rank of 2, got the shape "
                f"{tensor.shape}."
            )
    if serialization_dimension not in DIMENSIONS:
        raise ValueError(
            f"Invalid serialization_dimension={serialization_dimension}, expected one "
            "of: 'a_columns', 'a_rows_b_columns', 'b_rows'."
        )
    m, k = a.shape.as_list()[-2:]
    k_of_b, n = b.shape.as_list()[-2:]
    if transpose_a:
        m, k = k, m
    if transpose_b:
        k_of_b, n = n, k_of_b
    size, what = {
        "a_columns": (m, "columns dimension of 'a'"),
        "a_rows_b_columns": (k, "rows dimension of 'a'"),
        "b_rows": (n, "rows dimension of 'b'"),
    }[serialization_dimension]
    sums_parts = serialization_dimension == "a_rows_b_columns"
    if sums_parts and None not in (k, k_of_b) and k != k_of_b:
        raise ValueError(
            f"Expected the number of columns in 'a' ({k}) to match the number of "
            f"rows in 'b' ({k_of_b})."
        )
    if size is not None and size % serialization_factor:
        raise ValueError(
            f"Expected 'serialization_factor' ({serialization_factor}) to divide the "
            f"{what} ({size})."
        )
    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=name)


def segment_sum(
    data: TensorLike,
    segment_ids: TensorLike,
    num_segments: int,
    name: str | None = None,
) -> Tensor:
    """Sums the rows of each segment; of 16-bit floats in float32.

    Args:
        data: [rows, ...] of a defined shape.
        segment_ids: Integers [rows]: the segment of each row. Rows of segments that do
            not exist are ignored.
        num_segments: The number of segments, a Python int of at least 1.
        name: The operation's name.

    Returns:
        [num_segments, ...]: zeros for a segment without rows.

    Raises:
        TypeError: The number or an id is not an integer.
        ValueError: The shapes or the number.
    """
    data = as_tensor("data", data)
    segment_ids = as_ids("segment_ids", segment_ids)
    for tensor, which in ((data, "data"), (segment_ids, "segment_ids")):
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"Shape of {which} must be fully defined, got {tensor.shape}."
            )
    num_segments = as_int("num_segments", num_segments)
    if num_segments < 1:
        raise ValueError(f"num_segments must be greater than 0; got {num_segments}.")
    if (
        segment_ids.shape.rank != 1
        or segment_ids.shape.as_list() != data.shape.as_list()[:1]
    ):
        raise ValueError(
            f"segment_ids (shape {segment_ids.shape}) must have same length as axis 0 of "
            f"data (shape {data.shape})."
        )
    # Before the cast, which gives large ids of int64 other values.
    inside = (segment_ids >= 0) & (segment_ids < num_segments)
    ids = tf.cast(segment_ids, tf.int32)
    shape = [data.shape.as_list()[0], *[1] * (data.shape.rank - 1)]
    kept = tf.where(tf.reshape(inside, shape), data, tf.zeros_like(data))
    narrow = data.dtype.is_floating and data.dtype.size < 4  # rounded once
    total = tf.math.unsorted_segment_sum(
        tf.cast(kept, tf.float32 if narrow else data.dtype),
        tf.where(inside, ids, 0),
        num_segments,
        name=name,
    )
    return tf.cast(total, data.dtype)
