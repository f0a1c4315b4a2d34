"""ImageProjectiveTransformV3 for compiled programs, as XLA lacks it.

Keras's RandomRotation, RandomZoom, RandomTranslation and RandomShear use it. In a program
for an IPU it becomes gathers with the formula of TensorFlow's kernel, and so has gradients
with respect to the images.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import tensor_util

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Tensor

OP = "ImageProjectiveTransformV3"


@functools.cache
def install(in_program: Callable[[], bool]) -> None:
    """Replaces `tf.raw_ops.ImageProjectiveTransformV3`, once.

    Args:
        in_program: Whether ops are being built for a program of an IPU.
    """
    stock = getattr(tf.raw_ops, OP)

    @functools.wraps(stock)
    def build(
        images: Tensor,
        transforms: Tensor,
        output_shape: Tensor,
        fill_value: Tensor,
        interpolation: str,
        fill_mode: str = "CONSTANT",
        name: str | None = None,
    ) -> Tensor:
        images = tf.convert_to_tensor(images)
        size = tensor_util.constant_value_as_shape(tf.convert_to_tensor(output_shape))
        known = size.is_fully_defined() and images.shape[1:].is_fully_defined()
        if tf.executing_eagerly() or not known or not in_program():
            return stock(
                images=images,
                transforms=transforms,
                output_shape=output_shape,
                fill_value=fill_value,
                interpolation=interpolation,
                fill_mode=fill_mode,
                name=name,
            )
        with tf.name_scope(name or OP):
            return _transform(
                *(images, transforms, list(size)),
                *(fill_value, interpolation, fill_mode),
            )

    replace(tf.raw_ops, OP, build)


def _transform(
    images: Tensor,
    transforms: Tensor,
    size: list[int],
    fill_value: Tensor,
    interpolation: str,
    fill_mode: str,
) -> Tensor:
    """Builds the images whose pixels are read where the transform maps them.

    Args:
        images: [batch, height, width, channels], of fixed height and width.
        transforms: float32 [batch or 1, 8]: a0, a1, a2, b0, b1, b2, c0, c1.
        size: Height and width of the result.
        fill_value: Value outside of the image, with fill_mode CONSTANT.
        interpolation: NEAREST or BILINEAR.
        fill_mode: CONSTANT, NEAREST, REFLECT or WRAP.

    Returns:
        Images [batch, *size, channels], of the same dtype.
    """
    images = tf.convert_to_tensor(images)
    height, width = images.shape.as_list()[1:3]
    y, x = tf.meshgrid(
        tf.range(size[0], dtype=tf.float32),
        tf.range(size[1], dtype=tf.float32),
        indexing="ij",
    )
    parts = [each[:, None, None] for each in tf.unstack(transforms, 8, axis=1)]
    a0, a1, a2, b0, b1, b2, c0, c1 = parts
    scale = c0 * x + c1 * y + 1.0
    ahead = tf.not_equal(scale, 0.0)
    safe = tf.where(ahead, scale, 1.0)
    at_x = _mapped((a0 * x + a1 * y + a2) / safe, width, fill_mode)
    at_y = _mapped((b0 * x + b1 * y + b2) / safe, height, fill_mode)
    # One transform may serve all images.
    shape = [tf.shape(images)[0], *size]
    at_x, at_y = tf.broadcast_to(at_x, shape), tf.broadcast_to(at_y, shape)
    fill = tf.cast(fill_value, tf.float32)
    values = tf.cast(images, tf.float32)

    def read(row: Tensor, column: Tensor) -> Tensor:
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        places = tf.stack(
            [
                tf.cast(tf.clip_by_value(row, 0.0, height - 1.0), tf.int32),
                tf.cast(tf.clip_by_value(column, 0.0, width - 1.0), tf.int32),
            ],
            -1,
        )
        found = tf.gather_nd(values, places, batch_dims=1)
        return tf.where(inside[..., None], found, fill)

    if interpolation == "NEAREST":
        result = read(_rounded(at_y), _rounded(at_x))
    else:
        left, top = tf.floor(at_x), tf.floor(at_y)
        right, down = (at_x - left)[..., None], (at_y - top)[..., None]
        upper = (1.0 - right) * read(top, left) + right * read(top, left + 1.0)
        lower = (1.0 - right) * read(top + 1.0, left) + right * read(
            top + 1.0, left + 1.0
        )
        result = (1.0 - down) * upper + down * lower
    ahead = tf.broadcast_to(ahead, shape)[..., None]
    return tf.cast(tf.where(ahead, result, fill), images.dtype)


def _rounded(x: Tensor) -> Tensor:
    """Rounds to the nearest integer, halves away from 0, as C++ does."""
    return tf.sign(x) * tf.floor(tf.abs(x) + 0.5)


def _mapped(x: Tensor, length: int, mode: str) -> Tensor:
    """Maps coordinates into the image, extended according to `mode`."""
    last = float(length - 1)
    if mode == "CONSTANT":
        return x
    if mode != "NEAREST" and length <= 1:
        return tf.zeros_like(x)
    if mode == "REFLECT":
        twice = 2.0 * length
        below = twice * tf.floor(-x / twice) + x
        below = tf.where(below < -length, below + twice, -below - 1.0)
        above = x - twice * tf.floor(x / twice)
        above = tf.where(above >= length, twice - above - 1.0, above)
        x = tf.where(x < 0, below, tf.where(x > last, above, x))
    elif mode == "WRAP":
        below = x + length * (tf.floor(-x / last) + 1.0)
        above = x - length * tf.floor(x / last)
        x = tf.where(x < 0, below, tf.where(x > last, above, x))
    return tf.clip_by_value(x, 0.0, last)
