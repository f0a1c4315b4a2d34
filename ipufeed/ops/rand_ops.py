"""Dropout whose backward pass computes the mask again from the seed.

    seed --> uniform numbers --> mask --> y = x * mask / (1 - rate)
     |                                              dy
     +-----> uniform numbers --> mask --> dx = dy * mask / (1 - rate)

Only the two numbers of the seed are stored between the two passes.
"""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_number, as_numbers, as_shape, as_tensor
from ipufeed.device.random import ops as random_ops
from ipufeed.device.random import recomputed
from ipufeed.no_effect import no_effect
from ipufeed.tf_types import Shape, Tensor, TensorLike


def dropout(
    x: TensorLike,
    rate: float = 0.5,
    noise_shape: Shape | None = None,
    seed: TensorLike = None,
    name: str | None = None,
    **kwargs: object,
) -> Tensor:
    """Sets random elements of a tensor to zero and scales the others to the same mean.

    Args:
        x: A tensor of floats or of int32.
        rate: The probability of zero, a Python number in [0, 1). With 0 the result is x.
        noise_shape: Per axis 1 or x's size: along an axis of 1 all elements are kept or
            dropped together. Default: x's shape.
        seed: Integers of the shape [2], converted to int32. The same seed and shape give
            the same mask on each replica, in each iteration and in each run. Default: a
            new seed for each execution, from the device's (`utils.reset_ipu_seed`).
        name: The operations' name.
        **kwargs: `ref`, and others: ignored with a warning, as in Graphcore's.

    Returns:
        A tensor like x.

    Raises:
        TypeError: The rate is not a number, or the seed is not of integers.
        ValueError: The rate, the noise shape or the seed's shape is invalid.
    """
    for other in kwargs:
        no_effect(f"dropout({other}=)", "the operation ignores arguments but its own")
    rate = as_number("rate", rate)
    if not 0 <= rate < 1:
        raise ValueError(f"The rate must be in the range [0, 1), but was {rate}.")
    with tf.name_scope(name or "dropout"):
        x = as_numbers("x", x)
        shape = _noise_shape(x, noise_shape)
        if seed is None:
            seed = _drawn()
        else:
            seed = as_tensor("seed", seed)
            if not seed.dtype.is_integer:
                raise TypeError(
                    "`seed` must be two integers, got a tensor of dtype "
                    f"{seed.dtype.name}."
                )
            if seed.shape != [2]:
                raise ValueError(
                    f"Expected the seed to have a shape [2], but got {seed.shape}."
                )
            seed = tf.cast(seed, tf.int32)
        if rate == 0:
            return tf.identity(x)
        return _dropped(x, seed, shape, 1.0 - rate)


def _noise_shape(x: Tensor, noise_shape: Shape | None) -> Shape:
    """Returns the shape of the mask."""
    if noise_shape is not None and not tf.is_tensor(noise_shape):
        must_be = "`noise_shape` must be a list of sizes, 1 or that of `x`, or None"
        found = as_shape(must_be, noise_shape)
        if found.rank is None:
            raise ValueError(f"{must_be}, got a shape of unknown rank.")
        noise_shape = found.as_list()
    if noise_shape is None or (not tf.is_tensor(noise_shape) and not noise_shape):
        return x.shape if x.shape.is_fully_defined() else tf.shape(x)
    if tf.is_tensor(noise_shape):
        value = tf.get_static_value(noise_shape)
        if value is None:
            raise ValueError(
                "The noise_shape must be known when the program is built, got a tensor "
                "that is computed."
            )
        noise_shape = value
    sizes = tf.TensorShape(noise_shape).as_list()
    if x.shape.rank is not None and len(sizes) != x.shape.rank:
        raise ValueError(
            "The length of noise_shape must equal the rank of x. Got "
            f"{len(sizes)} and {x.shape.rank}."
        )
    known = x.shape.as_list() if x.shape.rank is not None else [None] * len(sizes)
    for size, of_x in zip(sizes, known, strict=True):
        if size not in (1, None) and of_x is not None and size != of_x:
            raise ValueError(
                f"Dimension mismatch, {size} != {of_x}. Each entry of noise_shape must be "
                f"1 or x's size, got {sizes} for {x.shape}."
            )
    if None not in sizes:
        return sizes
    dynamic = tf.unstack(tf.shape(x), len(sizes))
    return tf.stack(
        [dynamic[axis] if size is None else size for axis, size in enumerate(sizes)]
    )


def _drawn() -> Tensor:
    """Draws a seed for each execution: from the IPU's, or TensorFlow's on the host."""
    if random_ops.on_ipu():
        return random_ops.draw()
    return recomputed.kept(
        lambda: tf.random.uniform([2], tf.int32.min, tf.int32.max, tf.int32)
    )


def _dropped(x: Tensor, seed: Tensor, shape: Shape, keep: float) -> Tensor:
    def masked(x: Tensor, seed: Tensor) -> Tensor:
        def gradient(dy: Tensor) -> tuple[Tensor, None]:
            # The gradient of a gather is slices, which custom_gradient does not take.
            dense = tf.convert_to_tensor(dy)
            return _dropped(dense, seed, shape, keep), None

        # 16-bit floats have too few levels for the comparison.
        uniform = random_ops.numbers(
            shape, seed, tf.float32, random_ops.Distribution.UNIFORM
        )
        kept = uniform < keep
        if x.dtype.is_floating:
            return x * (tf.cast(kept, x.dtype) * tf.cast(1.0 / keep, x.dtype)), gradient
        scaled = tf.cast(x, tf.float32) * (tf.cast(kept, tf.float32) / keep)
        return tf.cast(scaled, x.dtype), gradient

    return tf.custom_gradient(masked)(x, seed)
