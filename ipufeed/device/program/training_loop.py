"""The loop whose body is being built, for optimizers that accumulate over iterations."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from ipufeed import _native
from ipufeed.tf_types import Operation, Tensor, TensorLike

UseCheck = Callable[[list[Tensor]], list[Operation]]


@dataclass
class TrainingLoop:
    """A loops.repeat, or the absence of one; plain_loops.py has those of TensorFlow.

    Attributes:
        iteration: The number of the iteration, from 0: an integer scalar of its body. None
            outside of a loop.
        count: The op whose result is the number of iterations; in eager mode the number.
        use_checks: Each is called at the end of the body, with the tensors that it returns;
            it returns operations that fail the program, for uses that are refused.
        outer: The loop around it: for loops.repeat that of TensorFlow which it builds.
    """

    iteration: Tensor | None = None
    count: Any = None
    use_checks: list[UseCheck] = field(default_factory=list)
    outer: TrainingLoop | None = None

    def at_start(self, add: Callable[[Operation], None]) -> None:
        """Calls `add` with an operation that runs before the outermost loop."""
        if self.outer is not None:
            self.outer.at_start(add)

    def refused_uses(self, results: list[Tensor]) -> list[Operation]:
        """Returns the operations that the checks of the body's results have built."""
        checks, self.use_checks = self.use_checks, []
        return [op for check in checks for op in check(results)]

    def require_multiple(self, mini_batches: int) -> Tensor | None:
        """Makes the program refuse a loop whose count is not a multiple of `mini_batches`.

        Returns:
            Outside of a loop, the op that checks it.
        """
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
    around = _loop.get()
    if loop is not around:
        loop.outer = None if around is _NONE else around
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
