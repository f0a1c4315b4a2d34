"""A decorator for what a process does once, whichever of its threads come first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

_R = TypeVar("_R")


def once(function: Callable[..., _R]) -> Callable[..., _R]:
    """Decorates a function: the first call with the same arguments runs it for all.

    Other threads wait for the first call; functools.cache would let each of them run the
    function, which may register a gradient or replace a method. A call that raises does not
    count.

    Threads: any.
    """
    lock = threading.RLock()
    found: dict[tuple[Hashable, ...], _R] = {}

    @functools.wraps(function)
    def call(*arguments: Hashable) -> _R:
        if arguments not in found:
            with lock:
                if arguments not in found:
                    found[arguments] = function(*arguments)
        return found[arguments]

    return call
