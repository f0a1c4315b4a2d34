"""The gradient of nearest-neighbour resizing in compiled programs: XLA does not have it.

`tf.image.resize(method="nearest")` and tf_keras's UpSampling2D are made of the op. In a
program for an IPU each pixel of the input gets the sum of the pixels that were made of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_image_ops

from ipufeed.tf_patches.changes import replace

FUNCTION = "resize_nearest_neighbor_grad"


@functools.cache
def install(in_program: Callable[[], bool]) -> None:
    """Changes what TensorFlow's gradient calls, once.

    Args:
        in_program: Whether what is built now belongs to a program of an IPU.
    """
    stock = getattr(gen_image_ops, FUNCTION)

    @functools.wraps(stock)
    def build(
        grads: Any,
        size: Any,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
        name: str | None = None,
    ) -> Any:
        known = tensor_util.constant_value_as_shape(tf.convert_to_tensor(size))
        fixed = known.is_fully_defined() and grads.shape[1:3].is_fully_defined()
        if tf.executing_eagerly() or not fixed or not in_program():
            return stock(grads, size, align_corners, half_pixel_centers, name=name)
        with tf.name_scope(name or FUNCTION):
            rows, columns = (
                _sums(*sizes, align_corners, half_pixel_centers)
                for sizes in zip(
                    grads.shape.as_list()[1:3], known.as_list(), strict=True
                )
            )
            return tf.einsum(
                "pa,bpqc,qd->badc",
                tf.constant(rows, grads.dtype),
                grads,
                tf.constant(columns, grads.dtype),
            )

    replace(gen_image_ops, FUNCTION, build)


def _sums(large: int, small: int, align_corners: bool, half_pixel: bool) -> Any:
    """[large, small]: 1 where a pixel of the result was made of one of the input."""
    place = np.arange(large, dtype=np.float32)
    if align_corners and large > 1:
        source = np.floor(
            place * np.float32((small - 1) / (large - 1)) + np.float32(0.5)
        )
    else:
        scale = np.float32(small) / np.float32(large)
        source = np.floor((place + np.float32(0.5 if half_pixel else 0)) * scale)
    return np.eye(small)[np.clip(source, 0, small - 1).astype(int)]
