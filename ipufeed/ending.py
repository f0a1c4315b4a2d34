"""The end of the process: which of the calls of daemon threads it waits for.

Python ends a daemon thread that asks for its lock while the interpreter is taken down, by
unwinding its stack. noexcept C++ frames of TensorFlow then abort the process. So daemon
threads leave TensorFlow before: their next call of it raises SystemExit, and the end of the
process waits, for a limited time, until no thread is in TensorFlow.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from ipufeed.tf_patches.changes import replace

_P = ParamSpec("_P")
_R = TypeVar("_R")

_has_begun = threading.Event()


def begin() -> None:
    """Marks the process as ending."""
    _has_begun.set()


def has_begun() -> bool:
    """Whether the process is ending."""
    return _has_begun.is_set()


# Daemon threads in decorated calls, which must not be in TensorFlow when Python ends.
_inside: set[threading.Thread] = set()


def leaves_at_exit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorates a function: daemon threads leave it by SystemExit when the process ends.

    The end of the process waits for these calls, a second at most, and their threads make
    no further one.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        thread = threading.current_thread()
        if not thread.daemon or thread in _inside:
            return function(*args, **kwargs)
        # Before the check below: the end of the process sees the thread, or the thread
        # sees the end.
        _inside.add(thread)
        try:
            if _has_begun.is_set():
                raise SystemExit
            found = function(*args, **kwargs)
        except Exception as error:
            # What the end has cancelled is not the user's error.
            if _has_begun.is_set():
                raise SystemExit from error
            raise
        finally:
            _inside.discard(thread)
        if _has_begun.is_set():
            raise SystemExit
        return found

    return call


def wait_for_calls(grace_s: float) -> bool:
    """Waits, `grace_s` seconds at most, until no other thread is in a decorated call.

    Returns whether that is so.
    """
    deadline = time.monotonic() + grace_s
    own = threading.current_thread()
    while time.monotonic() < deadline:
        # A copy, as threads change the set. In a fork the parent's threads are not alive.
        if not any(each.is_alive() for each in tuple(_inside) if each is not own):
            return True
        time.sleep(0.001)
    return False


# Folders of TensorFlow's Python whose functions call C++, and no thread waits in for long.
_FOLDERS = ("eager", "framework", "ops", "autograph", "client")
# Where functions are traced, compiled and called, which may take seconds.
_FUNCTIONS = ("framework/func_graph.py", "polymorphic_function/polymorphic_function.py")


def refuse_daemon_threads() -> None:
    """Lets a daemon thread's next call of TensorFlow raise SystemExit.

    Calls of functions and sessions, eager operations, and operations that are added to a
    graph: a thread that traces a function leaves with the next one. Done at the end of the
    process alone, so that it costs nothing until then.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import session
    from tensorflow.python.eager.polymorphic_function import (
        concrete_function,
        polymorphic_function,
    )
    from tensorflow.python.framework import func_graph, ops

    places: list[tuple[Any, str]] = [
        (polymorphic_function.Function, "__call__"),
        (concrete_function.ConcreteFunction, "__call__"),
        (session.BaseSession, "run"),
        (ops.Graph, "_create_op_internal"),
        (func_graph.FuncGraph, "_create_op_internal"),
        (pywrap_tfe, "TFE_Py_FastPathExecute"),
        (pywrap_tfe, "TFE_Py_Execute"),
        (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
    ]
    for owner, name in places:
        replace(owner, name, _refusing(getattr(owner, name)))


# Operations of `__del__`, which the thread runs while it unwinds: Python prints what these
# methods raise, and the end of the process frees the resource anyway.
_FREEING = ("Destroy", "Delete")


def _refusing(function: Callable[_P, _R]) -> Callable[_P, _R | None]:
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        if not _is_ended_by_python(threading.current_thread()):
            return function(*args, **kwargs)
        if any(
            isinstance(each, str) and each.startswith(_FREEING) for each in args[:3]
        ):
            return None
        raise SystemExit

    return call


def _is_ended_by_python(thread: threading.Thread) -> bool:
    """Whether it is a daemon thread that was started in Python.

    A thread of C++ that calls Python, as for tf.py_function, counts as a daemon, too.
    """
    return thread.daemon and not isinstance(thread, threading._DummyThread)


def wait_for_tensorflow(grace_s: float, function_grace_s: float) -> bool:
    """Waits until no daemon thread is in TensorFlow; Ctrl-C ends the wait.

    Returns whether that is so.

    Args:
        grace_s: How long at most.
        function_grace_s: Likewise, while one traces, compiles or runs a function.
    """
    import tensorflow

    folder = os.path.join(os.path.dirname(tensorflow.__file__), "python", "")
    begun = time.monotonic()
    try:
        while True:
            found = [_files_of(each, folder) for each in _frames_of_daemon_threads()]
            if not any(found):
                return True
            long = any(each.endswith(_FUNCTIONS) for files in found for each in files)
            if time.monotonic() - begun > (function_grace_s if long else grace_s):
                return False
            time.sleep(0.002)
    except KeyboardInterrupt:
        return False


def _frames_of_daemon_threads() -> list[FrameType]:
    frames = sys._current_frames()
    return [
        frames[each.ident]
        for each in threading.enumerate()
        if each.ident in frames and _is_ended_by_python(each)
    ]


def _files_of(frame: FrameType | None, folder: str) -> set[str]:
    """Returns the files of TensorFlow, in its `folder`, of a stack's frames."""
    files = set()
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(folder) and name[len(folder) :].startswith(_FOLDERS):
            files.add(name)
        frame = frame.f_back
    return files
