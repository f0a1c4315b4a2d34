"""The codes of float8_e4m3fnuz and float8_e5m2fnuz: 256 each, 0x80 is NaN, no infinities.

TensorFlow casts to neither: numbers are encoded by arithmetic, and codes are decoded by a
table.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import tensorflow as tf

from ipufeed.tf_types import Tensor, TensorLike

# (bits of the mantissa, bias) of F143 and F152.
FORMATS = ((3, 8), (2, 16))
LARGEST, NAN = 0x7F, 0x80
IS_F143, SCALE_BITS = 0x80, 0x3F


@functools.cache
def table() -> np.ndarray:
    """Returns the values of all codes, float32 [2, 256]: of F143, of F152."""
    codes = np.arange(256, dtype=np.uint8)
    formats = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
    return np.stack([codes.view(each).astype(np.float32) for each in formats])


def power(exponent: TensorLike) -> Tensor:
    """Returns 2**exponent exactly, for an int32 in [-126, 127]."""
    return tf.bitcast(tf.bitwise.left_shift(exponent + 127, 23), tf.float32)


def parts(metadata: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns the table's row, 0 or 1, and the scale of a byte of metadata: both int32."""
    byte = tf.cast(metadata, tf.int32)
    scale = tf.bitwise.bitwise_and(byte, SCALE_BITS)
    is_f143 = tf.not_equal(tf.bitwise.bitwise_and(byte, IS_F143), 0)
    return tf.where(is_f143, 0, 1), tf.where(scale > 31, scale - 64, scale)


def encode(values: TensorLike, metadata: TensorLike) -> Tensor:
    """Returns the codes, uint8, of float32 numbers over 2**scale; saturates."""
    row, scale = parts(metadata)
    mantissa = tf.gather(tf.constant([each[0] for each in FORMATS]), row)
    bias = tf.gather(tf.constant([each[1] for each in FORMATS]), row)
    scaled = values * power(-scale)
    size = tf.abs(scaled)
    bits = tf.bitcast(size, tf.int32)
    exponent = tf.bitwise.right_shift(bits, 23) - 127
    # Infinities and NaNs are handled below; small numbers have the least exponent.
    exponent = tf.clip_by_value(exponent, 1 - bias, 64)
    steps = tf.round(size * power(mantissa - exponent))  # halves to even
    code = tf.cast(tf.minimum(steps, 1024.0), tf.int32) + tf.bitwise.left_shift(
        exponent + bias - 1, mantissa
    )
    code = tf.minimum(code, LARGEST)
    code = tf.where((scaled < 0) & (code > 0), code + 0x80, code)
    return tf.cast(tf.where(tf.math.is_nan(scaled), NAN, code), tf.uint8)


def decode(codes: TensorLike, metadata: TensorLike) -> Tensor:
    """Returns the float32 values of codes."""
    row, scale = parts(metadata)
    values = tf.gather(tf.constant(table()), row)
    return tf.gather(values, tf.cast(codes, tf.int32)) * power(scale)
