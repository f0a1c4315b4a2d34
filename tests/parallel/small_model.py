"""A small model, written once, that tests train in several ways."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

FEATURES = 5
RATE = 0.05
_counter = itertools.count()


def samples(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [count, FEATURES] and targets [count, 1] that are not a linear function."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, FEATURES)).astype(np.float32)
    y = np.tanh(x @ random.normal(size=(FEATURES, 1))).astype(np.float32)
    return x, y


def initial_weights() -> list[np.ndarray]:
    """Of the model's two layers."""
    random = np.random.default_rng(7)
    return [
        random.normal(size=shape).astype(np.float32) * np.float32(0.3)
        for shape in ((FEATURES, 4), (4, 1))
    ]


def weights(style: Any) -> list[Any]:
    """Returns the model's variables, with a name that is new each time."""
    count = next(_counter)
    return [
        style.variable(value, f"layer_{count}_{number}")
        for number, value in enumerate(initial_weights())
    ]


def loss(variables: list[Any], x: Any, y: Any) -> Any:
    """Returns the mean square of the error."""
    first, second = variables
    return tf.reduce_mean((tf.tanh(x @ first) @ second - y) ** 2)


def batches(x: np.ndarray, y: np.ndarray, size: int) -> Any:
    """Again and again, in batches of this size."""
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat()
    return data.batch(size, drop_remainder=True)
