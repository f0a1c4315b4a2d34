"""A decorator for what a process does once, whichever of its threads come first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

_R = TypeVar("_R")


def once(function: Callable[[], _R]) -> Callable[[], _R]:
    """Decorates a function: the first call runs it, all return its result.

    Other threads wait for the first call; functools.cache would let each of them run the
    function, which may register a gradient or replace a method. A call that raises does not
    count.

    Threads: any.
    """
    lock = threading.RLock()
    found: list[_R] = []

    @functools.wraps(function)
    def call() -> _R:
        if not found:
            with lock:
                if not found:
                    found.append(function())
        return found[0]

    return call
