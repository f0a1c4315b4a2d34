"""The run over time: figures of up to 500 windows.

    marks      every 10 ms or more: time, and the sums up to it     ipufeed/cc/core/course.h
      |  a wait that began before its window is divided over the windows in which it was
      |  windows of one part of the run (fill, steady, ...) are merged into wider ones
    series     columns: one list of numbers for each figure

A window ends with an element, so its rate is exact: its elements over the time from the
element before its first to its last. A slow element makes a window wide.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipufeed.benchmark.result.sections import SeriesSection

# As many as a chart can show, and a JSON can hold and stay readable.
MOST_WINDOWS = 500
# A gap at the end is a stall, with its own window, if it is longer than any before by this.
STALLED = 2

Marks = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Boundaries of the parts of a run, on the monotonic clock.

    Attributes:
        requested_ns: The request for the iterator.
        first_ns: The arrival of the first element: the end of the start-up.
        steady_ns: The end of the fill.
        drain_ns: The end of the steady state, or None without a drain.
        last_ns: The last element.
        longest_ns: The longest time between two elements, the start-up included.
        ended: Whether the dataset ended, so that a gap at the end is not a stall.
    """

    requested_ns: int
    first_ns: int
    steady_ns: int
    drain_ns: int | None
    last_ns: int
    longest_ns: int
    ended: bool

    def at(self, moment_ns: float) -> str:
        """Returns the part of a time after the first element."""
        if moment_ns > self.last_ns:
            return "stalled"
        if moment_ns < self.steady_ns:
            return "fill"
        if self.drain_ns is not None and moment_ns > self.drain_ns:
            return "drain"
        return "steady"


def series_section(marks: Marks, parts: Parts) -> SeriesSection | None:
    """Returns `series` of the result: docs/result.md explains each column.

    Args:
        marks: int64 [n, 7]; see RawMeasurement.
        parts: The boundaries of the run's parts.

    Returns:
        None without an element. Else columns of one length in order of time; their first
        row is the start-up.
    """
    if len(marks) == 0:
        return None
    marks = _without_silence(marks, parts)
    seconds = np.diff(marks[:, 0])
    starved = waits_by_window(np.diff(marks[:, 3]), seconds)
    blocked = waits_by_window(np.diff(marks[:, 4]), seconds)
    names = [
        parts.at((a + b) / 2) for a, b in zip(marks[:-1, 0], marks[1:, 0], strict=True)
    ]
    edges = _fewer_edges(names)
    start_up_ns = max(1, parts.first_ns - parts.requested_ns)
    rows = [[0.0, start_up_ns / 1e9, *marks[0, 1:3].tolist(), 1.0, 0.0, 0.0, "startup"]]
    for begin, end in itertools.pairwise(edges):
        ns = max(1, int(marks[end, 0] - marks[begin, 0]))
        samples = marks[end, 6] - marks[begin, 6]
        depth = (marks[end, 5] - marks[begin, 5]) / samples if samples else rows[-1][6]
        rows.append(
            [
                round((int(marks[begin, 0]) - parts.requested_ns) / 1e9, 9),
                ns / 1e9,
                int(marks[end, 1] - marks[begin, 1]),
                int(marks[end, 2] - marks[begin, 2]),
                _fraction(starved[begin:end].sum(), ns),
                _fraction(blocked[begin:end].sum(), ns),
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


def _without_silence(marks: Marks, parts: Parts) -> Marks:
    """Drops the mark after the last element, unless that gap is a stall."""
    silence_ns = int(marks[-1, 0]) - parts.last_ns
    stalled = not parts.ended and silence_ns > STALLED * parts.longest_ns
    if silence_ns > 0 and not stalled:
        return marks[:-1] if len(marks) > 1 else marks
    return marks


def waits_by_window(waited: Marks, widths: Marks) -> NDArray[np.float64]:
    """Divides waits over the windows in which they were.

    A wait is counted when it ends. The part that exceeds its window belongs to the windows
    before, as far back as one in which another wait ended. A remainder after that is the
    difference of two clocks: stamps are taken by the dataset's thread, waits by a thread
    that may wake up late.
    """
    left = waited.astype(float)
    carried = 0.0
    for index in range(len(left) - 1, -1, -1):
        own, width = left[index], float(widths[index])
        left[index] = min(own + carried, width)
        carried = max(0.0, (own or carried) - width)
    return left


def _fewer_edges(names: list[str]) -> list[int]:
    """Returns indices of marks that divide the run into few windows of one part each."""
    if not names:
        return [0]
    starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    ends = [*starts[1:], len(names)]
    # The start-up is a window, and each part may have a partial one.
    stride = -(-len(names) // (MOST_WINDOWS - 1 - len(starts)))
    edges = [0]
    for start, end in zip(starts, ends, strict=True):
        edges += [*range(start + stride, end, stride), end]
    return edges


def _fraction(part_ns: float, whole_ns: int) -> float:
    return round(min(1.0, max(0.0, float(part_ns) / whole_ns)), 4)
