"""Work on a thread of its own, so that Ctrl-C and progress work on the caller's.

A thread inside a TensorFlow op does not see signals. What may take long therefore never
runs on the calling thread, which waits in short slices, polls, and can stop the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

POLL_S = 0.05
# After a stop work returns at once, unless it still creates an iterator: user code may run
# there, which cannot be interrupted.
STOP_GRACE_S = 2.0


@dataclass(frozen=True)
class Ended:
    """How work ended, or that it has not.

    Attributes:
        value: What it returned; None if it raised, or has not ended.
        error: What it raised, or None.
        interruption: What ended the wait for it early: the KeyboardInterrupt, or whatever
            `on_poll` raised; else None.
    """

    value: Any = None
    error: BaseException | None = None
    interruption: BaseException | None = None

    def result(self) -> Any:
        """Returns the value; raises the interruption, else the error."""
        found = self.interruption or self.error
        if found is not None:
            raise found
        return self.value


def run_interruptibly(
    work: Callable[[], Any],
    *,
    name: str,
    on_poll: Callable[[], bool | None] = lambda: None,
    stop: Callable[[], object] = lambda: None,
    pause_s: Callable[[], float] = lambda: POLL_S,
    grace_s: float = STOP_GRACE_S,
) -> Ended:
    """Runs `work` on a thread, and polls on the calling one until it has ended.

    Args:
        work: What to run. Its thread is a daemon: Python code inside a dataset may never
            return, and must not keep the process from exiting.
        name: Of the thread.
        on_poll: Called after each pause; True for enough, which stops the work.
        stop: Makes the work end soon; called each POLL_S until it has. Any thread may
            call it.
        pause_s: Seconds until the next poll. Default: POLL_S.
        grace_s: For how long the work is stopped at most, in seconds.

    Returns:
        How it ended. After an interruption the work may still run.
    """
    outcome: list[Ended] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(Ended(work()))
        except BaseException as error:  # the caller raises it
            outcome.append(Ended(error=error))
        finally:
            done.set()

    def stop_it() -> None:
        deadline = time.monotonic() + grace_s
        while not done.is_set() and time.monotonic() < deadline:
            stop()
            done.wait(POLL_S)

    # Event.wait, not join: an interrupted join spoils the thread.
    thread = threading.Thread(target=run, name=name, daemon=True)
    interruption: BaseException | None = None
    try:
        thread.start()
        while not done.wait(pause_s()):
            if on_poll():
                stop_it()
                break
    except BaseException as error:
        interruption = error
        stop_it()
    found = outcome[0] if outcome else Ended()
    return Ended(found.value, found.error, interruption)
