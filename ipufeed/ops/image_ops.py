"""Normalises images: scale, offset and a fourth channel in one operation."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_numbers, as_tensor
from ipufeed.tf_types import DType, Tensor, TensorLike

CHANNELS = 3


def normalise_image(
    image: TensorLike,
    channel_offsets: TensorLike,
    channel_scales: TensorLike,
    scale: float = 1,
    name: str | None = None,
) -> Tensor:
    """Normalises the three channels of images and adds a fourth of zeros.

    Args:
        image: [..., 3] of float16, float32 or uint8, which is cast to float16.
        channel_offsets: [3], cast to the result's dtype.
        channel_scales: [3], cast to the result's dtype.
        scale: The first factor.
        name: The operations' name.

    Returns:
        [..., 4]: (image * scale - offset[c]) * scale[c], and zeros.

    Raises:
        TypeError: Another dtype.
        ValueError: Another number of channels, offsets or scales.
    """
    with tf.name_scope(name or "normalise_image"):
        image = as_tensor("image", image)
        if image.dtype not in (tf.float16, tf.float32, tf.uint8):
            raise TypeError(
                "The input `image` to `normalise_image` must be either float16, float32 "
                f"or uint8. Got {image.dtype.name}."
            )
        if image.shape.rank is None or image.shape.rank < 1:
            raise ValueError(
                f"The image must have channels in its last axis, got {image.shape}."
            )
        channels = image.shape.as_list()[-1]
        if channels != CHANNELS:
            raise ValueError(f"The image has {channels} channels, expected {CHANNELS}.")
        dtype = tf.float16 if image.dtype == tf.uint8 else image.dtype
        offsets = _of_channels(channel_offsets, "channel_offsets", dtype)
        scales = _of_channels(channel_scales, "channel_scales", dtype)
        factor = tf.cast(as_numbers("scale", scale), dtype)
        scaled = tf.cast(image, dtype) * factor
        normal = (scaled - offsets) * scales
        return tf.pad(normal, [[0, 0]] * (image.shape.rank - 1) + [[0, 1]])


def _of_channels(value: Tensor, what: str, dtype: DType) -> Tensor:
    tensor = tf.cast(as_tensor(what, value), dtype)
    if tensor.shape != [CHANNELS]:
        raise ValueError(
            f"The {what} must be the same size as the number of image channels "
            f"{CHANNELS}, but was {tensor.shape}."
        )
    return tensor
