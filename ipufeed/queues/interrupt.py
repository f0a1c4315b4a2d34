"""Stops programs at Ctrl-C and SIGTERM.

Python runs a signal's handler when the main thread executes Python code. While the main
thread runs a program it is inside TensorFlow, maybe for hours. So a native hook in front
of that handler (cc/base/interrupt.h) wakes a thread that stops the programs; the main
thread then returns to Python, which raises KeyboardInterrupt.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import signal
import threading

# Each call of a function gets six handlers: signal.getsignal, which converts the result of
# this function to a member of an enumeration, takes 20 times as long.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable
from types import FrameType
from typing import Any

from tensorflow.python.client import session
from tensorflow.python.eager import context
from tensorflow.python.framework import errors

from ipufeed import _native, ending
from ipufeed.once import once
from ipufeed.queues.eager_calls import ends_programs_of_calls
from ipufeed.queues.library_errors import explain_thrown, texts_of_graph
from ipufeed.queues.placement import explain_colocation
from ipufeed.queues.xla_errors import explain_xla
from ipufeed.tf_patches.changes import replace


@once
def watch() -> threading.Thread:
    """Starts the thread that stops programs, once per process."""
    thread = threading.Thread(
        target=_stop_at_signals, name="ipufeed_interrupt", daemon=True
    )
    thread.start()
    _mend_calls()
    return thread


_interrupts = 0


def interrupts() -> int:
    """Returns the number of signals that have stopped programs; waits poll it."""
    return _interrupts


def _stop_at_signals() -> None:
    global _interrupts
    entry = _native.entry()
    came_ns = ctypes.c_int64()
    while True:
        number = entry.ipufeed_wait_for_interrupt(ctypes.byref(came_ns))
        handler = getsignal(number)
        if not _ends_programs(handler) and _main_calls.running():
            _explain_wait(number, handler)
        if _ends_programs(handler):
            _interrupts += 1
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            try:
                # This thread may be late: the main thread may have handled the signal
                # and run the next program.
                why = f"interrupted ({name})".encode()
                entry.ipufeed_stop_programs_until(why, came_ns.value)
            except Exception as error:  # the thread must handle the next Ctrl-C
                logging.getLogger("ipufeed").warning(
                    "programs could not be stopped: %s", error
                )


@functools.cache
def _explain_wait(number: int, handler: object) -> None:
    """Logs, once per handler, when a handler that does not stop programs will run."""
    logging.getLogger("ipufeed").warning(
        "%s came while a program runs: its handler %s runs when the program has ended, "
        "since only the default handler stops programs. A handler with the attribute "
        "`stops_programs = True` stops them, and then runs at once.",
        signal.Signals(number).name,
        _name_of(handler),
    )


@functools.cache
def _explain_not_hooked(number: int, handler: object) -> None:
    """Logs, once per handler, that its signal never stops programs."""
    logging.getLogger("ipufeed").warning(
        "`stops_programs` of %s has no effect for %s: it is read of handlers of SIGINT and "
        "SIGTERM alone. This one runs when the program has ended.",
        _name_of(handler),
        signal.Signals(number).name,
    )


def _name_of(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__


def _ends_programs(handler: object) -> bool:
    """Returns whether programs are stopped before this handler of SIGINT or SIGTERM runs.

    A user's handler may only record the signal and let the run end; the attribute
    `stops_programs` requests the stop.
    """
    return handler is signal.default_int_handler or bool(
        getattr(handler, "stops_programs", False)
    )


class _RecordedHandler:
    """Wraps a signal's handler and keeps its exception, which TensorFlow may replace."""

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self.handler = handler
        self.stops_programs = _ends_programs(handler)
        self.__qualname__ = _name_of(handler)
        self.raised: BaseException | None = None

    def __call__(self, number: int, frame: FrameType | None) -> object:
        try:
            return self.handler(number, frame)
        except BaseException as error:
            self.raised = error
            raise


SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Signals that programs may handle, without the native hook of the two above.
NOT_HOOKED = (signal.SIGALRM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# pybind11's message when a second exception replaces the first.
TWO_EXCEPTIONS = "MISMATCH of original and normalized active exception types"


def _mend_calls() -> None:
    """Makes Session.run and function calls raise the exception of a signal's handler.

    They build their own exception in C++ by calling Python, which then runs the handler;
    without this the caller gets a RuntimeError about two exceptions.
    """
    run = _explaining(session.BaseSession.run)
    replace(session.BaseSession, "run", interruptible(run))
    call = ends_programs_of_calls(context.Context.call_function)
    replace(context.Context, "call_function", interruptible(call))


def _explaining(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Session.run to name the function, or the op, that its error is about."""

    @functools.wraps(run)
    def explained(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return run(self, *args, **kwargs)
        except errors.OpError as error:
            explain_xla(error)
            explain_colocation(error, self.graph)
            explain_thrown(error, texts_of_graph(self.graph))
            raise

    return explained


class _MainCalls:
    """Context manager of the main thread's calls of TensorFlow; they nest."""

    def __init__(self) -> None:
        self._depth = 0
        self._set_in_call: Callable[[int], None] | None = None
        self._kept: BaseException | None = None
        self._recorded: list[tuple[int, _RecordedHandler]] = []

    def __enter__(self) -> None:
        if self._set_in_call is None:
            self._set_in_call = _native.entry().ipufeed_main_thread_calls
        if self._depth == 0:
            self._kept = None
            self._wrap_handlers()
            self._set_in_call(1)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._set_in_call is not None:
            self._set_in_call(0)
            for number, recorded in self._recorded:
                current: object = getsignal(number)
                if current is recorded:
                    signal.signal(number, recorded.handler)

    def _wrap_handlers(self) -> None:
        """Wraps the user's handlers until the outermost call returns.

        Python's default handler of Ctrl-C stays: its exception is known.
        """
        self._recorded = []
        for number in NOT_HOOKED:
            handler = getsignal(number)
            if getattr(handler, "stops_programs", False):
                _explain_not_hooked(number, handler)
        for number in SIGNALS:
            handler = getsignal(number)
            if callable(handler) and handler is not signal.default_int_handler:
                recorded = _RecordedHandler(handler)
                signal.signal(number, recorded)
                self._recorded.append((number, recorded))

    def running(self) -> bool:
        """Returns whether the main thread is in a call."""
        return self._depth > 0

    def raised(self) -> BaseException | None:
        """Returns the exception that a handler has raised during these calls."""
        return next((each.raised for _, each in self._recorded if each.raised), None)

    def keep(self, error: BaseException) -> None:
        """Keeps an exception that native code cannot pass on to the main thread's call."""
        self._kept = error

    def take_kept(self) -> BaseException | None:
        """Returns the exception that was kept, once and on the main thread."""
        if self._kept is None or not _on_main_thread():
            return None
        kept, self._kept = self._kept, None
        return kept


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


_main_calls = _MainCalls()
# The process of the first call of TensorFlow; its forks have none of its threads.
_calling_process: int | None = None


def check_not_forked() -> None:
    """Raises FailedPreconditionError in a fork of a process that has run programs.

    TensorFlow would wait without an end for threads that do not exist in the fork.
    """
    global _calling_process
    process = os.getpid()
    if _calling_process is None:
        _calling_process = process
    if process == _calling_process:
        return
    raise errors.FailedPreconditionError(
        None,
        None,
        "This process was forked from one that uses ipufeed's queues, and has none of "
        "their threads. Start processes with the `spawn` method and make the queues "
        "there.",
    )


def keep_of_signal(error: BaseException) -> bool:
    """Keeps what a signal's handler raised inside a function that a program calls.

    The main thread runs the handler there, if it runs the program; its call of TensorFlow
    raises the exception in place of the program's error. Returns whether it was kept.
    """
    of_signal = not isinstance(error, Exception) or error is _main_calls.raised()
    if not (of_signal and _on_main_thread() and _main_calls.running()):
        return False
    _main_calls.keep(error)
    return True


def interruptible(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `function` to raise the handler's exception instead of that RuntimeError.

    The native core is notified while it runs on the main thread: a signal then also stops
    programs that have not started, such as one that is being compiled.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_not_forked()
        if not _on_main_thread():
            try:
                return call_restored(*args, **kwargs)
            except Exception as error:
                if ending.has_begun() and threading.current_thread().daemon:
                    # The process's exit has stopped the program: not a user's error.
                    raise SystemExit from error
                raise
        with _main_calls:
            return call_restored(*args, **kwargs)

    def call_restored(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            kept = _main_calls.take_kept()
            if kept is not None:
                raise kept from None
            if not isinstance(error, RuntimeError):
                raise
            if TWO_EXCEPTIONS not in str(error):
                raise
            # TensorFlow's own exception is not useful to the user.
            raised = _main_calls.raised()
            if raised is not None:
                raise raised from None
            if "KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise

    return call
