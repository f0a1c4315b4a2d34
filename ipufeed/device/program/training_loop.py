"""The loop whose body is being built, for optimizers that do not act in each iteration."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ipufeed import _native


@dataclass
class TrainingLoop:
    """A loops.repeat, or that there is none.

    Attributes:
        iteration: The number of the iteration, from 0: an integer scalar of its body. None
            if there is no loop.
        count: The op whose result is how often it runs; in eager mode that number.
    """

    iteration: Any = None
    count: Any = None

    def require_multiple(self, mini_batches: int) -> Any:
        """Has the program refuse a loop whose count is not a multiple of `mini_batches`.

        Returns:
            What checks it, where there is no loop.
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
    """The innermost loop around what is being built."""
    return _loop.get()


@contextlib.contextmanager
def inside(loop: TrainingLoop) -> Iterator[None]:
    """Within it the body of a loop is built."""
    token = _loop.set(loop)
    try:
        yield
    finally:
        _loop.reset(token)


def checked_count(count: Any, mini_batches: int = 1) -> Any:
    """The same number, which must be a multiple: see IpufeedRepeatCount.

    Raises:
        tf.errors.FailedPreconditionError: When it runs: it is not.
    """
    return _native.load().ipufeed_repeat_count(count, mini_batches=mini_batches)
