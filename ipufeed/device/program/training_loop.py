"""The loop whose body is being built, for optimizers that accumulate over iterations."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ipufeed import _native
from ipufeed.tf_types import Tensor, TensorLike


@dataclass
class TrainingLoop:
    """A loops.repeat, or the absence of one.

    Attributes:
        iteration: The number of the iteration, from 0: an integer scalar of its body. None
            outside of a loop.
        count: The op whose result is the number of iterations; in eager mode the number.
    """

    iteration: Tensor | None = None
    count: Any = None

    def require_multiple(self, mini_batches: int) -> Tensor | None:
        """Makes the program refuse a loop whose count is not a multiple of `mini_batches`.

        Returns:
            Outside of a loop, the op that checks it.
        """
        import tensorflow as tf
        from tensorflow.core.framework import attr_value_pb2

        if self.iteration is None:
            return checked_count(tf.constant(-1, tf.int64), mini_batches)
        if tf.executing_eagerly():
            return checked_count(self.count, mini_batches)
        other = self.count.get_attr("mini_batches")
        both = attr_value_pb2.AttrValue(i=math.lcm(other, mini_batches))
        self.count._set_attr("mini_batches", both)
        return None


_NONE = TrainingLoop()
_loop: contextvars.ContextVar[TrainingLoop] = contextvars.ContextVar(
    "ipufeed_training_loop", default=_NONE
)


def training_loop() -> TrainingLoop:
    """Returns the innermost loop whose body is being built."""
    return _loop.get()


@contextlib.contextmanager
def inside(loop: TrainingLoop) -> Iterator[None]:
    """Marks this context as the trace of a loop's body."""
    token = _loop.set(loop)
    try:
        yield
    finally:
        _loop.reset(token)


def checked_count(count: TensorLike, mini_batches: int = 1) -> Tensor:
    """Returns the count, checked to be a multiple at the run: see IpufeedRepeatCount.

    Raises:
        tf.errors.FailedPreconditionError: At the run: it is not a multiple.
    """
    return _native.load().ipufeed_repeat_count(count, mini_batches=mini_batches)
