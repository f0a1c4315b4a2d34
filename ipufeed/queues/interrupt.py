"""Ctrl-C, and SIGTERM, while a program runs.

Python's handler of a signal runs when the main thread is in Python. A main thread that runs
a program is inside TensorFlow, maybe for hours, and deaf. A hook in front of that handler
(cc/base/interrupt.h) therefore wakes a thread that stops the programs; the main thread
then comes back to Python, which raises KeyboardInterrupt.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

from ipufeed import _native


@functools.cache
def watch() -> threading.Thread:
    """Starts the thread, once per process; it sleeps until there is a signal."""
    thread = threading.Thread(target=listen, name="ipufeed_interrupt", daemon=True)
    thread.start()
    mend_calls()
    return thread


_interrupts = 0


def interrupts() -> int:
    """How many signals have ended programs: what waits looks whether it grows."""
    return _interrupts


def listen() -> None:
    """The thread's work."""
    global _interrupts
    entry = _native.entry()
    while True:
        number = entry.ipufeed_wait_for_interrupt()
        if ends_programs(signal.getsignal(number)):
            _interrupts += 1
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            try:
                entry.ipufeed_stop_programs(f"interrupted ({name})".encode())
            except Exception as error:  # the next Ctrl-C must find this thread alive
                logging.getLogger("ipufeed").warning(
                    "programs could not be stopped: %s", error
                )


def ends_programs(handler: object) -> bool:
    """Whether a handler of SIGINT or SIGTERM means that the programs should end.

    A user's own handler may only note that the signal came, and wait for the end of the
    run: it says that it wants the run to end with the attribute `stops_programs`.
    """
    return handler is signal.default_int_handler or bool(
        getattr(handler, "stops_programs", False)
    )


# What pybind11 says of two exceptions at once, if the second is for the process.
REPLACED_BY = re.compile(
    r"REPLACED BY (?P<type>KeyboardInterrupt|SystemExit)(: (?P<text>[^\n]*))?"
)


def mend_calls() -> None:
    """Lets Session.run and calls of functions raise what a signal's handler raises.

    They build their exception in C++ by calling Python, in the course of which Python
    runs the handler; what comes out is a RuntimeError about two exceptions, that nobody
    expects.
    """
    from tensorflow.python.client import session
    from tensorflow.python.eager import context

    session.BaseSession.run = interruptible(session.BaseSession.run)
    context.Context.call_function = interruptible(
        ends_programs_of_calls(context.Context.call_function)
    )


class MainCalls:
    """The calls of TensorFlow that the main thread is in; they nest."""

    def __init__(self) -> None:
        self._depth = 0
        self._tell: Callable[[int], None] | None = None

    def __enter__(self) -> None:
        if self._tell is None:
            self._tell = _native.entry().ipufeed_main_thread_calls
        if self._depth == 0:
            self._tell(1)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._tell is not None:
            self._tell(0)


_main_calls = MainCalls()
# The process that has called TensorFlow first; its forks have none of its threads.
_calling_process: int | None = None


def check_not_forked() -> None:
    """Raises FailedPreconditionError in a fork of a process that has run programs.

    TensorFlow would wait for ever for threads that are not there.
    """
    global _calling_process
    process = os.getpid()
    if _calling_process is None:
        _calling_process = process
    if process == _calling_process:
        return
    from tensorflow.python.framework import errors

    raise errors.FailedPreconditionError(
        None,
        None,
        "This process was forked from one that uses ipufeed's queues, and has none of "
        "their threads. Start processes with the `spawn` method and make the queues "
        "there.",
    )


def interruptible(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with that RuntimeError turned into what it was.

    The native core knows while it runs on the main thread: a signal then stops the
    programs that are yet to begin, too, such as one that is being compiled.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_not_forked()
        if threading.get_ident() != threading.main_thread().ident:
            return call_mended(*args, **kwargs)
        with _main_calls:
            return call_mended(*args, **kwargs)

    def call_mended(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            replaced = REPLACED_BY.search(str(error))
            if replaced is None:
                raise
            # What TensorFlow made of it is no news to anybody.
            if replaced["type"] == "KeyboardInterrupt":
                raise KeyboardInterrupt from None
            code = replaced["text"] or ""
            raise SystemExit(int(code) if code.isdecimal() else code or None) from None

    return call


def ends_programs_of_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Context.call_function, after which the queues of the function's program are free.

    Nobody tells the native queue ops when a function that TensorFlow's executor runs has
    ended (ipufeed/cc/run/step_program.h), so the caller does: for the IPU that the call is
    placed on, and for all when no other call is running.
    """
    running = 0
    lock = threading.Lock()
    end = _native.entry().ipufeed_end_eager_programs

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
        try:
            return function(self, *args, **kwargs)
        finally:
            with lock:
                running -= 1
                alone = running == 0
            name, _, ordinal = (self.device_name or "").rpartition(":")
            if alone:
                end(-1)
            elif name.endswith("IPU"):
                end(int(ordinal))

    return call
