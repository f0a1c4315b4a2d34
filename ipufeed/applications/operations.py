"""Builds the engine's calls as operations of a graph: see saved_calls."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_script_ops


def build(token: str, inputs: list[Any], specs: list[tf.TensorSpec]) -> list[Any]:
    """Builds the operation of a token, which gives tensors of these specs."""
    with tf.device("/device:CPU:0"):
        results = gen_script_ops.py_func(
            input=inputs, token=token, Tout=[spec.dtype for spec in specs]
        )
    for result, spec in zip(results, specs, strict=True):
        result.set_shape(spec.shape)
    return list(results)
