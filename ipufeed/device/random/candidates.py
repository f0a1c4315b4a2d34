"""Samples classes in a program, uniformly or log-uniformly, with the device's seed.

    uniform      p(k) = 1 / classes
    log-uniform  p(k) = log((k + 2) / (k + 1)) / log(classes + 1)

TensorFlow's samplers cannot be compiled, and their seed is a constant. To sample without
repeats, these draw until the required number of different classes is reached; after T draws
class k is expected -expm1(T log1p(-p(k))) times, and T p(k) times with repeats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from ipufeed.device.random import ops as random_ops
from ipufeed.tf_types import Nest, NestFunction, Tensor, TensorLike


@dataclass(frozen=True)
class Seed:
    """The seed of an op, and that of its graph; see tf.random.set_seed."""

    op: int
    graph: int = 0


@dataclass(frozen=True)
class _Classes:
    """A distribution over the classes 0 to count - 1.

    Attributes:
        count: The number of classes.
        log_uniform: Whether it is log-uniform instead of uniform.
    """

    count: int
    log_uniform: bool

    def of(self, u: Tensor) -> Tensor:
        """Returns the classes, int64, for uniform numbers in [0, 1)."""
        if self.log_uniform:
            value = tf.math.floor(tf.exp(u * math.log(self.count + 1))) - 1.0
        else:
            value = tf.math.floor(u * float(self.count))
        return tf.cast(value, tf.int64) % self.count

    def probability(self, classes: Tensor) -> Tensor:
        """Returns the probability of classes, float32."""
        k = tf.cast(classes, tf.float32)
        if not self.log_uniform:
            return tf.ones_like(k) / float(self.count)
        return tf.math.log1p(1.0 / (k + 1.0)) / math.log(self.count + 1)


def sample_classes(
    labels: Tensor, num_sampled: int, num_classes: int, seed: Seed
) -> tuple[Tensor, Tensor, Tensor]:
    """Samples classes without repeats, log-uniformly, once for a whole batch.

    Args:
        labels: The true classes, integers of any shape.
        num_sampled: The number of different classes to sample.
        num_classes: The number of classes.
        seed: The op's seed.

    Returns:
        The classes, int64 [num_sampled], and the expected counts, float32: of the true
        classes (in the shape of labels) and of the sampled ones.

    Raises:
        ValueError: `num_sampled` is not in [1, num_classes].
    """
    return _sample(labels, num_sampled, _Classes(num_classes, True), True, seed)


def _sample(
    labels: Tensor, num_sampled: int, classes: _Classes, unique: bool, seed: Seed
) -> tuple[Tensor, Tensor, Tensor]:
    if num_sampled < 1 or (unique and num_sampled > classes.count):
        raise ValueError(
            f"num_sampled must be in 1 to num_classes ({classes.count}), got {num_sampled}."
        )
    drawn = random_ops.draw(seed.graph, seed.op)
    if unique:
        sampled, draws = _different(drawn, num_sampled, classes)
    else:
        uniform = random_ops.Distribution.UNIFORM
        u = random_ops.numbers([num_sampled], drawn, tf.float32, uniform)
        sampled = classes.of(u)

    def expected(of: Tensor) -> Tensor:
        p = classes.probability(of)
        if not unique:
            return num_sampled * p
        return -tf.math.expm1(tf.cast(draws, tf.float32) * tf.math.log1p(-p))

    results = sampled, expected(labels), expected(sampled)
    return tuple(map(tf.stop_gradient, results))


def _different(seed: Tensor, wanted: int, classes: _Classes) -> tuple[Tensor, Tensor]:
    """Returns the first different classes of a sequence of draws, and the draw count."""

    def draw(found: Tensor, count: Tensor, draws: Tensor) -> Nest:
        own = seed + tf.stack([0, draws])
        u = random_ops.numbers([1], own, tf.float32, random_ops.Distribution.UNIFORM)
        value = classes.of(u[0])
        # Not `!=` and `==`, which compare identities in version 1 graphs.
        is_new = tf.reduce_all(tf.not_equal(found, value))
        place = tf.where(is_new, count, -1)  # -1: not stored
        found = tf.where(tf.equal(tf.range(wanted), place), value, found)
        return found, count + tf.cast(is_new, tf.int32), draws + 1

    start = -tf.ones([wanted], tf.int64), tf.constant(0), tf.constant(0)
    found, _, draws = tf.while_loop(
        lambda found, count, draws: count < wanted, draw, start
    )
    return found, draws


def sampler(log_uniform: bool) -> NestFunction:
    """Returns the replacement of TensorFlow's {Uniform, LogUniform}CandidateSampler."""

    def build(
        true_classes: TensorLike,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = 0,
        seed2: int | None = 0,
        name: str | None = None,
    ) -> Nest:
        kind = "log_uniform" if log_uniform else "uniform"
        with tf.name_scope(name or f"{kind}_candidate_sampler"):
            true_classes = tf.convert_to_tensor(true_classes, tf.int64)
            true_classes = tf.ensure_shape(true_classes, [None, num_true])
            own = Seed(seed2 or 0, seed or 0)
            return _sample(
                true_classes, num_sampled, _Classes(range_max, log_uniform), unique, own
            )

    return build


# Name of the function in TensorFlow's module of ops -> its replacement.
REWRITTEN: dict[str, NestFunction] = {
    "uniform_candidate_sampler": sampler(log_uniform=False),
    "log_uniform_candidate_sampler": sampler(log_uniform=True),
}
