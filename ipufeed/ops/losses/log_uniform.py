"""Classes sampled by the log-uniform distribution, without repeats, in a program.

    p(k) = log((k + 2) / (k + 1)) / log(classes + 1)

TensorFlow's own sampler cannot be compiled. This one draws until it has enough different
classes; after T draws class k is expected -expm1(T log1p(-p(k))) times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ipufeed.device.random import ops as random_ops


@dataclass(frozen=True)
class Seed:
    """The seed of an op's own; see tf.random.set_seed."""

    op: int


def sample_classes(
    labels: Any, num_sampled: int, num_classes: int, seed: Seed
) -> tuple[Any, Any, Any]:
    """Samples classes, the same for all examples of a batch.

    Args:
        labels: The true classes, integers of any shape.
        num_sampled: How many different classes.
        num_classes: How many there are.
        seed: The op's own.

    Returns:
        The classes, int64 [num_sampled], and the expected counts, float32: of the true
        classes (like labels) and of the sampled ones.

    Raises:
        ValueError: More classes than there are.
    """
    import tensorflow as tf

    if not 0 < num_sampled <= num_classes:
        raise ValueError(
            f"num_sampled must be in 1 to num_classes ({num_classes}), got {num_sampled}."
        )
    drawn = random_ops.draw(0, seed.op)
    sampled, draws = _different(drawn, num_sampled, num_classes)

    def expected(classes: Any) -> Any:
        k = tf.cast(classes, tf.float32)
        p = tf.math.log1p(1.0 / (k + 1.0)) / math.log(num_classes + 1)
        return -tf.math.expm1(tf.cast(draws, tf.float32) * tf.math.log1p(-p))

    results = sampled, expected(labels), expected(sampled)
    return tuple(map(tf.stop_gradient, results))


def _different(seed: Any, wanted: int, classes: int) -> tuple[Any, Any]:
    """The first different classes of a sequence of draws, and the number of draws."""
    import tensorflow as tf

    def draw(found: Any, count: Any, draws: Any) -> Any:
        own = seed + tf.stack([0, draws])
        u = random_ops.numbers([1], own, tf.float32, random_ops.Distribution.UNIFORM)
        value = tf.math.floor(tf.exp(u[0] * math.log(classes + 1))) - 1.0
        value = tf.cast(value, tf.int64) % classes
        is_new = tf.reduce_all(found != value)
        place = tf.where(is_new, count, -1)  # -1: no place
        found = tf.where(tf.range(wanted) == place, value, found)
        return found, count + tf.cast(is_new, tf.int32), draws + 1

    start = -tf.ones([wanted], tf.int64), tf.constant(0), tf.constant(0)
    found, _, draws = tf.while_loop(
        lambda found, count, draws: count < wanted, draw, start
    )
    return found, draws
