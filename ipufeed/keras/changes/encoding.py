"""Encodings of Keras 3's layers in a program, without bincount."""

from __future__ import annotations

import tensorflow as tf
from keras.src.utils import tf_utils

from ipufeed.device.random.ops import on_ipu
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Tensor


def encode_without_bincount() -> None:
    """Makes CategoryEncoding and similar layers use keras.ops in a program.

    Keras counts with tf.math.bincount, whose result has no shape that XLA knows; if that
    raises ValueError, Keras falls back to keras.ops.
    """
    stock = tf_utils.tf_encode_categorical_inputs

    def encode(*arguments: object, **keywords: object) -> Tensor:
        if not tf.executing_eagerly() and on_ipu():
            raise ValueError("There is no bincount in a program of an IPU.")
        return stock(*arguments, **keywords)

    replace(tf_utils, "tf_encode_categorical_inputs", encode)
