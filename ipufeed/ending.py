"""The end of the process: which of the calls of daemon threads it waits for."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_has_begun = threading.Event()


def begin() -> None:
    """Notes that the process ends."""
    _has_begun.set()


def has_begun() -> bool:
    """Whether the process ends."""
    return _has_begun.is_set()


# Daemon threads in calls of ours that must not be in TensorFlow when Python ends.
_inside: set[threading.Thread] = set()


def leaves_at_exit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function`, which a daemon thread leaves with SystemExit when the process ends.

    Python ends a daemon thread that asks for its lock while the interpreter is taken down.
    In an eager call of TensorFlow that unwinds C++ frames which let nothing through, and
    the process aborts. So the end of the process waits for these calls, a second at most,
    and their threads make no further one.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        thread = threading.current_thread()
        if not thread.daemon or thread in _inside:
            return function(*args, **kwargs)
        _inside.add(
            thread
        )  # before the look: the end of the process sees one of the two
        try:
            if _has_begun.is_set():
                raise SystemExit
            found = function(*args, **kwargs)
        finally:
            _inside.discard(thread)
        if _has_begun.is_set():
            raise SystemExit
        return found

    return call


def wait_for_calls(grace_s: float) -> None:
    """Waits until no other thread is in such a call, `grace_s` seconds at most."""
    deadline = time.monotonic() + grace_s
    own = threading.current_thread()
    while time.monotonic() < deadline:
        # A copy: the threads change it. Of a fork's parent none is alive.
        if not any(each.is_alive() for each in tuple(_inside) if each is not own):
            return
        time.sleep(0.001)
