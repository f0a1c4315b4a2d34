"""The run-queue delay of this process's threads: runnable, but without a CPU.

The kernel counts it for each thread (schedstat). It bounds the CPU time that other
processes took from a run, except for the cost of shared caches and cores: a pipeline that
mostly sleeps, or waits for a disk, loses little even if no CPU is free.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ipufeed.benchmark.measuring.run import Progress

TASKS = "/proc/self/task"
# Between two samples, growing: a sample takes about a millisecond, and misses threads that
# have ended since the last one.
FIRST_S, MOST_S = 0.1, 1.0


class RunQueueDelay:
    """Adds up the delays of all threads from the first element on.

    Threads: the caller of run_measurement, whose own delay does not count.
    """

    def __init__(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._on_progress = on_progress
        self._begin_s = self._end_s = 0.0
        self._next_s = 0.0
        self._pause_s = FIRST_S
        self._delays: dict[int, int] = {}
        self._total_ns = 0

    def __call__(self, progress: Progress) -> None:
        """Samples the delays, if it is time to, and passes the progress on."""
        now = time.monotonic()
        if progress.elements > 0 and now >= self._next_s:
            self._sample(now)
            self._next_s = now + self._pause_s
            self._pause_s = min(MOST_S, 2 * self._pause_s)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _sample(self, now: float) -> None:
        delays = _run_delays()
        if not self._begin_s:
            self._begin_s = now
        else:
            # The whole delay of a new thread lies after the previous sample.
            self._total_ns += sum(
                delay - self._delays.get(thread, 0) for thread, delay in delays.items()
            )
        self._end_s = now
        self._delays = delays

    @property
    def threads(self) -> float | None:
        """Mean number of threads without a CPU; None if too short, or not counted."""
        seconds = self._end_s - self._begin_s
        if seconds <= 0 or not self._delays:
            return None
        return max(0.0, self._total_ns / 1e9 / seconds)


def _run_delays() -> dict[int, int]:
    """Returns the run-queue delay in ns of each thread but this one since its start."""
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
            continue  # the thread has ended, or the kernel does not count
    return delays
