"""Where a run through the device stood, every few milliseconds, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipufeed.queues import QueueStats

MARK_NS = 10_000_000
MOST_MARKS = 4096


class MarkTable:
    """The table of ipufeed/cc/core/course.h, for a run that Python follows.

    All of a mark but its time is a sum from the first element on, so that a table which
    is full can drop every other mark and still has what happened between those that stay.

    Threads: one.
    """

    def __init__(self, interval_ns: int = MARK_NS, most: int = MOST_MARKS) -> None:
        self._interval_ns = interval_ns
        self._most = most
        self._marks: list[tuple[int, ...]] = []
        self._depths = self._looks = 0
        self._looked_ns = 0
        # An infeed counts from 0 in each pass over the dataset.
        self._before = np.zeros(2, np.int64)
        self._seen = np.zeros(2, np.int64)
        self._first: Any = None

    def look(self, at_ns: int, elements: int, infeed: QueueStats) -> None:
        """Notes how it is now, if the last look is long enough ago.

        Args:
            at_ns: When the last element was taken, on the monotonic clock.
            elements: Elements until then.
            infeed: What the queue has counted.
        """
        if self._marks and at_ns - self._looked_ns < MARK_NS:
            return
        self._looked_ns = at_ns
        self._depths += infeed.filled
        self._looks += 1
        if not self._marks or at_ns - self._marks[-1][0] >= self._interval_ns:
            self._add(at_ns, elements, infeed)

    def finish(
        self, last_ns: int, finished_ns: int, elements: int, infeed: QueueStats
    ) -> None:
        """The last element, and the silence behind it."""
        if not self._marks:
            return
        self._add(last_ns, elements, infeed)
        if finished_ns <= last_ns:
            return
        at_ns, *sums = self._marks[-1]
        # A side that waits in a silence waits for all of it.
        silence_ns = min(finished_ns - last_ns, sums[1] - self._starved_before())
        self._marks[-1] = (at_ns, sums[0], sums[1] - silence_ns, *sums[2:])
        self._marks.append((finished_ns, *sums))

    def rows(self, bytes_per_element: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """int64 [n, 7], as RawMeasurement.marks."""
        table = [
            (at, elements, elements * bytes_per_element, *rest)
            for at, elements, *rest in self._marks
        ]
        return np.array(table, np.int64).reshape(-1, 7)

    def _starved_before(self) -> int:
        return self._marks[-2][2] if len(self._marks) > 1 else 0

    def _add(self, at_ns: int, elements: int, infeed: QueueStats) -> None:
        waited = np.array([infeed.device_waited_s, infeed.host_waited_s])
        now = np.round(waited * 1e9).astype(np.int64)
        if (now < self._seen).any():
            self._before += self._seen
        self._seen = now
        sums = self._before + now
        if self._first is None:
            self._first = sums
        starved, blocked = (sums - self._first).tolist()
        mark = (at_ns, elements, starved, blocked, self._depths, self._looks)
        if self._marks and self._marks[-1][0] == at_ns:
            self._marks[-1] = mark
            return
        if len(self._marks) >= self._most:
            self._marks = self._marks[::2]
            self._interval_ns *= 2
        self._marks.append(mark)
