"""Runs work on its own thread, so that the caller's can handle Ctrl-C and progress.

A thread inside a TensorFlow op does not handle signals. Long work therefore never runs on
the calling thread, which waits in short slices, polls, and can stop the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

T = TypeVar("T")

POLL_S = 0.05
# Stopped work returns at once, unless it is creating an iterator: that may run user code,
# which cannot be interrupted.
STOP_GRACE_S = 2.0


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The outcome of run_interruptibly.

    Attributes:
        value: What the work returned; None if it raised or still runs.
        error: What the work raised, or None.
        interruption: What ended the wait early: a KeyboardInterrupt, or the error that
            `on_poll` raised; None if nothing did.
    """

    value: T | None = None
    error: BaseException | None = None
    interruption: BaseException | None = None

    def result(self) -> T:
        """Returns the value, or raises the interruption or the error."""
        found = self.interruption or self.error
        if found is not None:
            raise found
        return cast(T, self.value)


def run_interruptibly(
    work: Callable[[], T],
    *,
    name: str,
    on_poll: Callable[[], bool | None] = lambda: None,
    stop: Callable[[], object] = lambda: None,
    pause_s: Callable[[], float] = lambda: POLL_S,
    grace_s: float = STOP_GRACE_S,
) -> Outcome[T]:
    """Runs `work` on a new thread, and polls on the calling one until it ends.

    Args:
        work: What to run. Its thread is a daemon: Python code inside a dataset may never
            return, and must not keep the process from exiting.
        name: The thread's name.
        on_poll: Called after each pause; returns True to stop the work.
        stop: Asks the work to end; called each POLL_S until it has. Any thread may
            call it.
        pause_s: Returns the seconds until the next poll. Default: POLL_S.
        grace_s: How long to wait for stopped work at most, in seconds.

    Returns:
        The outcome. After an interruption the work may still run.
    """
    outcome: list[Outcome[T]] = []
    # A lock, not an Event or join: what a signal's handler raises inside a Condition can
    # leave its lock acquired, and then both threads deadlock; an interrupted join
    # leaves the thread object unusable.
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        try:
            outcome.append(Outcome(work()))
        except BaseException as error:  # the caller raises it
            outcome.append(Outcome(error=error))
        finally:
            running.release()

    def ends_within(seconds: float) -> bool:
        # An interruption may follow an acquisition; the outcome is there in either case.
        return bool(outcome) or running.acquire(timeout=max(0.0, seconds))

    def stop_it() -> None:
        deadline = time.monotonic() + grace_s
        while not outcome and time.monotonic() < deadline:
            stop()
            ends_within(POLL_S)

    thread = threading.Thread(target=run, name=name, daemon=True)
    interruption: BaseException | None = None
    try:
        thread.start()
        while not ends_within(pause_s()):
            if on_poll():
                stop_it()
                break
    except BaseException as error:
        interruption = _raised_by_handler(error)
        stop_it()
    found: Outcome[T] = outcome[0] if outcome else Outcome()
    return Outcome(found.value, found.error, interruption)


def _raised_by_handler(error: BaseException) -> BaseException:
    """Returns the KeyboardInterrupt that an error of leaving `with` has replaced, or it.

    If a handler raises while a Condition waits, as that of Thread.start does, leaving the
    Condition raises RuntimeError: its lock is not acquired.
    """
    cause = error.__context__
    replaced = isinstance(error, RuntimeError) and isinstance(cause, KeyboardInterrupt)
    return cause if replaced and cause is not None else error
