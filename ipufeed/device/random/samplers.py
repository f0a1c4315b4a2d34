"""Further random operations on an IPU: TensorFlow's stateless ones with a drawn seed.

Only the executor runs them: XLA does not have these ops, and its compilation error names
the stateless one.

Threads: each function builds a part of the current graph; in eager mode it runs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_image_ops, gen_stateless_random_ops

from ipufeed.device.random.ops import draw
from ipufeed.tf_types import DType, NestFunction, Shape, Tensor, TensorLike


def _shape_with(shape: Shape, parameter: Tensor) -> Tensor:
    """Returns `shape` followed by the parameter's shape."""
    first = tf.cast(shape, tf.int32)
    return tf.concat([first, tf.shape(parameter)], axis=0)


def _gamma(
    shape: Shape,
    alpha: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Tensor:
    with tf.name_scope(name or "random_gamma"):
        alpha = tf.convert_to_tensor(alpha)
        drawn = draw(seed or 0, seed2 or 0)
        whole = _shape_with(shape, alpha)
        return tf.random.stateless_gamma(whole, drawn, alpha, dtype=alpha.dtype)


def _poisson(
    shape: Shape,
    rate: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    dtype: DType | None = None,
    name: str | None = None,
) -> Tensor:
    with tf.name_scope(name or "random_poisson"):
        rate = tf.convert_to_tensor(rate)
        drawn = draw(seed or 0, seed2 or 0)
        whole = _shape_with(shape, rate)
        return tf.random.stateless_poisson(whole, drawn, rate, dtype or tf.int64)


def _truncated_normal(
    shape: Shape,
    means: TensorLike,
    stdevs: TensorLike,
    minvals: TensorLike,
    maxvals: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Tensor:
    """Each parameter is a scalar, or has a value for each index of the first axis."""
    with tf.name_scope(name or "parameterized_truncated_normal"):
        parameters = [
            tf.convert_to_tensor(p) for p in (means, stdevs, minvals, maxvals)
        ]
        shape = tf.cast(shape, tf.int32)
        drawn = draw(seed or 0, seed2 or 0)
        # The stateless op has the axis of the parameters last.
        samples = gen_stateless_random_ops.stateless_parameterized_truncated_normal(
            tf.roll(shape, -1, axis=0), drawn, *parameters
        )
        return tf.transpose(samples, tf.roll(tf.range(tf.size(shape)), 1, axis=0))


def _boxes(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    min_object_covered: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    aspect_ratio_range: Sequence[float] = (0.75, 1.33),
    area_range: Sequence[float] = (0.05, 1.0),
    max_attempts: int = 100,
    use_image_if_no_bounding_boxes: bool = False,
    name: str | None = None,
) -> Tensor:
    return gen_image_ops.stateless_sample_distorted_bounding_box(
        image_size,
        bounding_boxes,
        min_object_covered,
        draw(seed or 0, seed2 or 0),
        aspect_ratio_range=list(aspect_ratio_range or (0.75, 1.33)),
        area_range=list(area_range or (0.05, 1.0)),
        max_attempts=100 if max_attempts is None else max_attempts,
        use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes),
        name=name,
    )


def _older_boxes(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    min_object_covered: float = 0.1,
    **others: Any,
) -> Tensor:
    return _boxes(image_size, bounding_boxes, min_object_covered, seed, seed2, **others)


# Name of the function in TensorFlow's module of ops -> its replacement.
RANDOM: dict[str, NestFunction] = {
    "random_gamma": _gamma,
    "random_poisson_v2": _poisson,
    "parameterized_truncated_normal": _truncated_normal,
}
IMAGE: dict[str, NestFunction] = {
    "sample_distorted_bounding_box": _older_boxes,
    "sample_distorted_bounding_box_v2": _boxes,
}
