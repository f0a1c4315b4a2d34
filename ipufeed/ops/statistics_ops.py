"""Histograms of tensors, in programs."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_int, as_tensor, flags_checked
from ipufeed.tf_types import Tensor, TensorLike


def fixed_width_bins(inputs: TensorLike, n_bins: int) -> Tensor:
    """Returns n_bins levels of equal distance, from the smallest input to the largest.

    Args:
        inputs: A tensor of floats.
        n_bins: The number of levels, at least 1.

    Returns:
        [n_bins], of the inputs' dtype.

    Raises:
        TypeError: `n_bins` is not an int.
        ValueError: There are no levels.
    """
    n_bins = as_int("n_bins", n_bins)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
    inputs = as_tensor("inputs", inputs)
    return tf.linspace(tf.reduce_min(inputs), tf.reduce_max(inputs), n_bins)


def histogram_normalize(hist: TensorLike) -> Tensor:
    """Divides a histogram by the sum of its counts."""
    hist = as_tensor("hist", hist)
    return hist / tf.reduce_sum(hist, axis=0)


@flags_checked
def histogram(
    inputs: TensorLike, levels: TensorLike, absolute_of_input: bool = False
) -> Tensor:
    """Counts the inputs between levels.

    Args:
        inputs: float16 or float32, [n].
        levels: [m], ascending.
        absolute_of_input: Whether to count the absolute values.

    Returns:
        float32 [m + 1]: the counts below the first level, from each level to the next
        one, and from the last level on.

    Raises:
        ValueError: The dtype or a rank is invalid.
    """
    inputs = as_tensor("inputs", inputs)
    _check(inputs, "histogram", "computation")
    return _counts(inputs, _as_levels(levels), absolute_of_input)


@flags_checked
def histogram_update(
    hist: TensorLike,
    inputs: TensorLike,
    levels: TensorLike,
    absolute_of_input: bool = False,
) -> Tensor:
    """Adds the counts of more inputs to a histogram.

    Args:
        hist: float32 [m + 1].
        inputs: float16 or float32, [n].
        levels: [m], ascending.
        absolute_of_input: Whether to count the absolute values.

    Returns:
        float32 [m + 1].

    Raises:
        ValueError: A dtype, a rank or a shape is invalid.
    """
    hist, inputs = as_tensor("hist", hist), as_tensor("inputs", inputs)
    levels = _as_levels(levels)
    if hist.dtype != tf.float32:
        raise ValueError(f"hist must be of float32 type, got {hist.dtype.name}.")
    _check(inputs, "histogram_update", "update")
    number = tf.compat.dimension_value(levels.shape[0])
    if not hist.shape.is_compatible_with([None if number is None else number + 1]):
        raise ValueError(
            "hist and levels shapes are incompatible. For n levels, hist must have n+1 "
            f"elements. Got {hist.shape} and {levels.shape}."
        )
    return hist + _counts(inputs, levels, absolute_of_input)


def _check(inputs: Tensor, function: str, what: str) -> None:
    if inputs.dtype not in (tf.float16, tf.float32):
        raise ValueError(
            f"Only float16 and float32 types are supported for histogram {what}. Got "
            f"{inputs.dtype.name}."
        )
    if inputs.shape.rank != 1:
        raise ValueError(
            f"{function} expects rank-1 tensor inputs. Got the shape {inputs.shape}."
        )


def _as_levels(levels: TensorLike) -> Tensor:
    tensor = as_tensor("levels", levels)
    if tensor.shape.rank not in (None, 1):
        raise ValueError(
            f"`levels` must have one dimension, got the shape {tensor.shape}."
        )
    return tensor


def _counts(inputs: Tensor, levels: Tensor, absolute: bool) -> Tensor:
    values = tf.cast(tf.abs(inputs) if absolute else inputs, tf.float32)
    levels = tf.cast(levels, tf.float32)
    size = tf.compat.dimension_value(levels.shape[0])
    if size is None:
        size = tf.size(levels)
    places = tf.searchsorted(levels, values, side="right")
    # tf.math.bincount computes its size from the values: in a loop XLA cannot compile it.
    ones = tf.ones_like(places, tf.float32)
    return tf.math.unsorted_segment_sum(ones, places, size + 1)
