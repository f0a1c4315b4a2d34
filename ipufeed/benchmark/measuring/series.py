"""The course of a run: what happened in each of up to 500 windows of time.

    marks      every 10 ms or more: time, and the sums up to it     ipufeed/cc/core/course.h
      |  waits that ended in a window but began before it go to where they were
      |  windows of one part of the run (fill, steady, ...) become fewer, wider ones
    series     columns: one list of numbers for each figure

A window ends with an element, so its rate is exact: its elements over the time from the
element before its first to its last. A slow element makes a window wide.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

# What a picture can show, and a JSON can hold without being unreadable.
MOST_WINDOWS = 500
# A silence at the end is a window of its own if it is so much longer than any before.
STALLED = 2

Marks = np.ndarray[Any, np.dtype[np.int64]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Parts:
    """Where the parts of a run begin and end, on the monotonic clock.

    Attributes:
        requested_ns: The iterator was asked for.
        first_ns: The first element was there: the end of the start-up.
        steady_ns: The end of the fill.
        drain_ns: The end of the steady state, or None where there is no drain.
        last_ns: The last element.
        longest_ns: The longest time between two elements, the start-up included.
        ended: Whether the dataset came to its end, so that silence is not a stall.
    """

    requested_ns: int
    first_ns: int
    steady_ns: int
    drain_ns: int | None
    last_ns: int
    longest_ns: int
    ended: bool

    def at(self, moment_ns: float) -> str:
        """The part that a moment after the first element belongs to."""
        if moment_ns > self.last_ns:
            return "stalled"
        if moment_ns < self.steady_ns:
            return "fill"
        if self.drain_ns is not None and moment_ns > self.drain_ns:
            return "drain"
        return "steady"


def series_section(marks: Marks, parts: Parts) -> dict[str, list[Any]] | None:
    """`series` of the result: docs/result.md says how to read each column.

    Args:
        marks: int64 [n, 7]; see RawMeasurement.
        parts: Where the parts of the run are.

    Returns:
        None if there was no element. Else columns of one length, in order of time, the
        first row of which is the start-up.
    """
    if len(marks) == 0:
        return None
    marks = without_silence(marks, parts)
    seconds = np.diff(marks[:, 0])
    starved = spread_back(np.diff(marks[:, 3]), seconds)
    blocked = spread_back(np.diff(marks[:, 4]), seconds)
    names = [
        parts.at((a + b) / 2) for a, b in zip(marks[:-1, 0], marks[1:, 0], strict=True)
    ]
    edges = fewer_edges(names)
    start_up_ns = max(1, parts.first_ns - parts.requested_ns)
    rows = [[0.0, start_up_ns / 1e9, *marks[0, 1:3].tolist(), 1.0, 0.0, 0.0, "startup"]]
    for begin, end in itertools.pairwise(edges):
        ns = max(1, int(marks[end, 0] - marks[begin, 0]))
        looks = marks[end, 6] - marks[begin, 6]
        depth = (marks[end, 5] - marks[begin, 5]) / looks if looks else rows[-1][6]
        rows.append(
            [
                round((int(marks[begin, 0]) - parts.requested_ns) / 1e9, 9),
                ns / 1e9,
                int(marks[end, 1] - marks[begin, 1]),
                int(marks[end, 2] - marks[begin, 2]),
                share(starved[begin:end].sum(), ns),
                share(blocked[begin:end].sum(), ns),
                round(float(depth), 2),
                names[begin],
            ]
        )
    columns = (
        "start_seconds",
        "seconds",
        "elements",
        "bytes",
        "starved_share",
        "blocked_share",
        "queue_depth",
        "part",
    )
    return {
        name: list(column)
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
    }


def without_silence(marks: Marks, parts: Parts) -> Marks:
    """The marks without a last one behind the last element that means nothing."""
    silence_ns = int(marks[-1, 0]) - parts.last_ns
    stalled = not parts.ended and silence_ns > STALLED * parts.longest_ns
    if silence_ns > 0 and not stalled:
        return marks[:-1] if len(marks) > 1 else marks
    return marks


def spread_back(waited: Marks, widths: Marks) -> Numbers:
    """Waits by the window that they were in.

    A wait is counted when it is over. What is more than its window holds was in the
    windows before, as far back as one in which another wait had ended. What is left then
    is the difference of two clocks: stamps are the dataset's, waits those of a thread
    that may wake up late.
    """
    left = waited.astype(float)
    carried = 0.0
    for index in range(len(left) - 1, -1, -1):
        own, width = left[index], float(widths[index])
        left[index] = min(own + carried, width)
        carried = max(0.0, (own or carried) - width)
    return left


def fewer_edges(names: list[str]) -> list[int]:
    """Marks that stay, so that there are few windows and each is of one part."""
    if not names:
        return [0]
    starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    ends = [*starts[1:], len(names)]
    # The start-up is a window, and each part may have one that is not full.
    stride = -(-len(names) // (MOST_WINDOWS - 1 - len(starts)))
    edges = [0]
    for start, end in zip(starts, ends, strict=True):
        edges += [*range(start + stride, end, stride), end]
    return edges


def share(part_ns: float, whole_ns: int) -> float:
    """In [0, 1], to a hundredth of a percent."""
    return round(min(1.0, max(0.0, float(part_ns) / whole_ns)), 4)
