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
import signal
import threading

# Each call of a function asks six times for a handler: signal.getsignal, which makes an
# enumeration's member of what this one returns, takes 20 times as long.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import Any

from ipufeed import _native
from ipufeed.tf_patches.changes import replace


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
        handler = getsignal(number)
        if not ends_programs(handler) and _main_calls.running():
            explain_wait(number, handler)
        if ends_programs(handler):
            _interrupts += 1
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            try:
                entry.ipufeed_stop_programs(f"interrupted ({name})".encode())
            except Exception as error:  # the next Ctrl-C must find this thread alive
                logging.getLogger("ipufeed").warning(
                    "programs could not be stopped: %s", error
                )


@functools.cache
def explain_wait(number: int, handler: object) -> None:
    """Logs, once for each handler, when a handler that stops no program will run."""
    logging.getLogger("ipufeed").warning(
        "%s came while a program runs: its handler %s runs when the program has ended, "
        "since only the default handler stops programs. A handler with the attribute "
        "`stops_programs = True` stops them, and then runs at once.",
        signal.Signals(number).name,
        _name_of(handler),
    )


@functools.cache
def explain_unheard(number: int, handler: object) -> None:
    """Logs, once for each handler, that its signal does not stop programs."""
    logging.getLogger("ipufeed").warning(
        "`stops_programs` of %s has no effect for %s: it is read of handlers of SIGINT and "
        "SIGTERM alone. This one runs when the program has ended.",
        _name_of(handler),
        signal.Signals(number).name,
    )


def _name_of(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__


def ends_programs(handler: object) -> bool:
    """Whether a handler of SIGINT or SIGTERM means that the programs should end.

    A user's own handler may only note that the signal came, and wait for the end of the
    run: it says that it wants the run to end with the attribute `stops_programs`.
    """
    return handler is signal.default_int_handler or bool(
        getattr(handler, "stops_programs", False)
    )


class _RecordedHandler:
    """A handler of a signal whose exception is kept, since TensorFlow may lose it."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler
        self.stops_programs = ends_programs(handler)
        self.__qualname__ = _name_of(handler)
        self.raised: BaseException | None = None

    def __call__(self, number: int, frame: Any) -> Any:
        try:
            return self.handler(number, frame)
        except BaseException as error:
            self.raised = error
            raise


SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Others that programs have handlers for; the native hook is in front of the two above.
NOT_HEARD = (signal.SIGALRM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# pybind11's message for two exceptions at once.
TWO_EXCEPTIONS = "MISMATCH of original and normalized active exception types"


def mend_calls() -> None:
    """Lets Session.run and calls of functions raise what a signal's handler raises.

    They build their exception in C++ by calling Python, in the course of which Python
    runs the handler; what comes out is a RuntimeError about two exceptions, which
    callers do not expect.
    """
    from tensorflow.python.client import session
    from tensorflow.python.eager import context

    replace(session.BaseSession, "run", interruptible(session.BaseSession.run))
    call = ends_programs_of_calls(context.Context.call_function)
    replace(context.Context, "call_function", interruptible(call))


class MainCalls:
    """The calls of TensorFlow that the main thread is in; they nest."""

    def __init__(self) -> None:
        self._depth = 0
        self._tell: Callable[[int], None] | None = None
        self._recorded: list[tuple[int, _RecordedHandler]] = []

    def __enter__(self) -> None:
        if self._tell is None:
            self._tell = _native.entry().ipufeed_main_thread_calls
        if self._depth == 0:
            self._record()
            self._tell(1)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._tell is not None:
            self._tell(0)
            for number, recorded in self._recorded:
                current: object = getsignal(number)
                if current is recorded:
                    signal.signal(number, recorded.handler)

    def _record(self) -> None:
        """Replaces the program's own handlers, as long as calls last.

        Python's default handler of Ctrl-C stays: what it raises is known.
        """
        self._recorded = []
        for number in NOT_HEARD:
            handler = getsignal(number)
            if getattr(handler, "stops_programs", False):
                explain_unheard(number, handler)
        for number in SIGNALS:
            handler = getsignal(number)
            if callable(handler) and handler is not signal.default_int_handler:
                recorded = _RecordedHandler(handler)
                signal.signal(number, recorded)
                self._recorded.append((number, recorded))

    def running(self) -> bool:
        """Whether the main thread is in a call."""
        return self._depth > 0

    def raised(self) -> BaseException | None:
        """What a handler has raised during these calls."""
        return next((each.raised for _, each in self._recorded if each.raised), None)


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
            try:
                return call_mended(*args, **kwargs)
            except Exception as error:
                if _native.is_ending() and threading.current_thread().daemon:
                    # The exit has stopped its program: not an error of the user's.
                    raise SystemExit from error
                raise
        with _main_calls:
            return call_mended(*args, **kwargs)

    def call_mended(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if TWO_EXCEPTIONS not in str(error):
                raise
            # What TensorFlow made of it is of no use to the user.
            raised = _main_calls.raised()
            if raised is not None:
                raise raised from None
            if "KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise

    return call


_end_of_eager_calls: Callable[[], None] | None = None


def end_eager_call() -> None:
    """Frees the queues of a queue operation that was called outside of a function.

    It is a program of its own, and nothing else ends it.
    """
    if _end_of_eager_calls is not None:
        _end_of_eager_calls()


class ManagerOfThread(threading.local):
    """The cancellation manager of the call that a thread is in, or None."""

    manager: Any = None


def ends_programs_of_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Context.call_function, after which the queues of the function's program are free.

    The native queue ops get no notice when a function that TensorFlow's executor runs has
    ended (ipufeed/cc/run/step_program.h), so the caller does. Each call has a cancellation
    manager of its own, by which the ops' program knows whose it is, and which is cancelled
    when the call has ended. When no other call is running, all programs are ended.
    """
    from tensorflow.python.eager import cancellation

    global _end_of_eager_calls
    running = 0
    lock = threading.Lock()
    end = _native.entry().ipufeed_end_eager_programs

    def end_unless_running() -> None:
        with lock:
            alone = running == 0
        if alone:
            end(-1)

    _end_of_eager_calls = end_unless_running
    own = ManagerOfThread()
    stock = cancellation.context
    # TensorFlow's is one for the process; Context.call_function asks by this name.
    replace(cancellation, "context", lambda: own.manager or stock())

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
        manager = None
        try:
            if cancellation.context() is not None:
                return function(self, *args, **kwargs)
            own.manager = manager = cancellation.CancellationManager()
            return function(self, *args, **kwargs)
        finally:
            own.manager = None if manager is not None else own.manager
            with lock:
                running -= 1
                alone = running == 0
            if alone:
                end(-1)
            elif manager is not None:
                manager.start_cancel()

    return call
