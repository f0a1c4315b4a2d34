"""The seeds of functions in tf.recompute_grad: the recomputation has those of the forward.

    g = tf.recompute_grad(f)
    y = g(x)                calls f: each seed that is drawn is kept
    gradient of y           calls f again: it gets the kept seeds, in the same order

TensorFlow calls f twice, and each call would draw its own: the gradient would be that of
another mask than the result's. Only the seeds are kept between the two calls, and which
operations have drawn them: the gradient may be built outside of the scope of the IPU.

Threads: any; the seeds belong to a call of g, in its context.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import custom_gradient
from tensorflow.python.util import tf_decorator

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Graph, Nest, NestFunction, Tensor


class _Kept:
    """The seeds that one call of a function has drawn."""

    def __init__(self) -> None:
        self._graph = _graph()
        # Of the function around this one, which is computed again as a whole.
        self._outer = _kept.get()
        self._seeds: list[Tensor] = []
        # Of each random operation: whether its seed is the device's.
        self._answers: list[bool] = []
        self._is_complete = False
        self._used = self._asked = 0

    def draws(self, on_ipu: Callable[[], bool]) -> bool:
        """Returns whether the next random operation has a seed of the device."""
        self._asked += 1
        if self._is_complete and self._asked <= len(self._answers):
            return self._answers[self._asked - 1]
        answer = on_ipu() if self._outer is None else self._outer.draws(on_ipu)
        self._answers.append(answer)
        return answer

    def next(self, draw: Callable[[], Tensor]) -> Tensor:
        """Draws a seed in the first call of the function; returns it in the others.

        Raises:
            ValueError: The seed belongs to a loop, a condition or a function inside of
                the function; or the function draws more seeds than before.
        """
        if self._is_complete:
            if self._used == len(self._seeds):
                raise ValueError(
                    "A function in tf.recompute_grad must draw as many seeds when it is "
                    f"computed again: it had {self._used}, and draws another one. Give "
                    "its random operations a `seed`, or make their number the same."
                )
            self._used += 1
            return self._seeds[self._used - 1]
        if _graph() is not self._graph:
            raise ValueError(
                "A random operation in a loop, a condition or a tf.function inside of "
                "tf.recompute_grad draws a seed that the recomputation cannot get: its "
                "gradient would be that of other numbers. Give it a `seed`, such as an "
                "argument of the function, or apply tf.recompute_grad inside of the loop."
            )
        seed = draw() if self._outer is None else self._outer.next(draw)
        self._seeds.append(seed)
        return seed

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Context of one call of the function."""
        self._used = self._asked = 0
        token = _kept.set(self)
        try:
            yield
        finally:
            _kept.reset(token)
            self._is_complete = True


_kept: contextvars.ContextVar[_Kept | None] = contextvars.ContextVar(
    "ipufeed_kept_seeds", default=None
)


def _graph() -> Graph | None:
    """Returns the graph of new operations; None in eager mode."""
    return None if tf.executing_eagerly() else ops.get_default_graph()


def kept(draw: Callable[[], Tensor]) -> Tensor:
    """Returns a new seed; where tf.recompute_grad computes again, that of the forward."""
    seeds = _kept.get()
    return draw() if seeds is None else seeds.next(draw)


def draws(on_ipu: Callable[[], bool]) -> bool:
    """Returns whether a random operation has a seed of the device.

    Where tf.recompute_grad computes again, the answer is that of the forward.

    Args:
        on_ipu: Whether a new operation is on an IPU.
    """
    seeds = _kept.get()
    return on_ipu() if seeds is None else seeds.draws(on_ipu)


@functools.cache
def install() -> None:
    """Changes tf.recompute_grad, once."""
    recompute_grad = _keeping(custom_gradient.recompute_grad)
    for module in (custom_gradient, tf, tf.compat.v1, tf.compat.v2):
        replace(module, "recompute_grad", recompute_grad)


def _keeping(original: Callable[[NestFunction], NestFunction]) -> NestFunction:
    @functools.wraps(original)
    def recompute_grad(f: NestFunction) -> Any:
        def inner(*arguments: Any, **keywords: Any) -> Nest:
            seeds = _Kept()

            def computed(*arguments: Any, **keywords: Any) -> Nest:
                with seeds.calling():
                    return f(*arguments, **keywords)

            return original(computed)(*arguments, **keywords)

        return tf_decorator.make_decorator(f, inner)

    return recompute_grad
