"""How long threads of this process were ready to run and had no CPU, because of others.

The kernel counts it for each thread (schedstat). What others on the machine can have
taken from a run is no more than that, and what their sharing of caches and cores costs: a
pipeline that mostly sleeps, or waits for a disk, loses little even where no CPU is free.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ipufeed.benchmark.measuring.run import Progress

TASKS = "/proc/self/task"
# Between two looks, growing: a look takes about a millisecond, and threads that have ended
# since the last one are not seen.
FIRST_S, MOST_S = 0.1, 1.0


class Waiting:
    """Adds up what the kernel has counted, from the first element on.

    Threads: that of run_measurement's caller, whose own waiting does not count.
    """

    def __init__(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._on_progress = on_progress
        self._begin_s = self._end_s = 0.0
        self._next_s = 0.0
        self._pause_s = FIRST_S
        self._delays: dict[int, int] = {}
        self._total_ns = 0

    def __call__(self, progress: Progress) -> None:
        """Looks, if it is time to, and passes the progress on."""
        now = time.monotonic()
        if progress.elements > 0 and now >= self._next_s:
            self._look(now)
            self._next_s = now + self._pause_s
            self._pause_s = min(MOST_S, 2 * self._pause_s)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _look(self, now: float) -> None:
        delays = run_delays()
        if not self._begin_s:
            self._begin_s = now
        else:
            # A thread that is new has waited for all that it has waited since.
            self._total_ns += sum(
                delay - self._delays.get(thread, 0) for thread, delay in delays.items()
            )
        self._end_s = now
        self._delays = delays

    @property
    def threads(self) -> float | None:
        """Threads that waited for a CPU, on average; None: too short, or not counted."""
        seconds = self._end_s - self._begin_s
        if seconds <= 0 or not self._delays:
            return None
        return max(0.0, self._total_ns / 1e9 / seconds)


def run_delays() -> dict[int, int]:
    """Of each thread but this one, ns of waiting for a CPU since it began."""
    delays: dict[int, int] = {}
    own = threading.get_native_id()
    try:
        threads = os.listdir(TASKS)
    except OSError:
        return delays
    for thread in threads:
        if int(thread) == own:
            continue
        try:
            with open(f"{TASKS}/{thread}/schedstat", "rb") as file:
                delays[int(thread)] = int(file.read().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or the kernel does not count
    return delays
