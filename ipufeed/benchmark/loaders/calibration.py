"""Measures the cost of the loop itself: without a loader, and as it was in the run.

In a run an element is new and not in the CPU's caches, which the loader has used: what is
asked of it takes up to twice as long as with the same element again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.sources.loaders.leaves import Element


@dataclass(frozen=True)
class LoopCost:
    """What the loop takes with the same element again.

    Attributes:
        elements: How many it took.
        seconds: For each of them, in the fastest interval.
        calling: The part of these seconds in which it is about to call the loader, or has
            just been answered: a run counts it as the loader's.
    """

    elements: int
    seconds: float
    calling: float


def calibrate(
    element: Element,
    copy: bool,
    seconds: float,
    interval_s: float,
    rows: Rows | None = None,
) -> LoopCost | None:
    """Measures the cost of the loop by repeating one element; None without two of them."""
    limits = Limits(
        epoch_ns=round(interval_s * 1e9), seconds_ns=round(seconds * 1e9), copy=copy
    )
    consumer = Consumer(
        lambda: contextlib.nullcontext(itertools.repeat(element)), limits, rows
    )
    consumer.run()
    consumer.finish()
    counts = consumer.counts
    elements = counts.elements - 1
    if elements < 1:
        return None
    mean = (counts.last_ns - counts.first_ns) / 1e9 / elements
    times = [
        (end - start) / 1e9 / count
        for count, _, _, start, end in counts.epochs[1:]
        if end - start >= limits.epoch_ns / 2
    ]
    calling = max(0.0, mean - counts.blocked_ns / 1e9 / elements)
    return LoopCost(elements, min(times, default=mean), calling)


def seconds_in_run(marks: Sequence[tuple[int, ...]]) -> float:
    """Returns the loop's time per element in the fastest window of a run; 0 without one.

    The others contain what interrupted the loop: threads of the loader with the GIL.

    Args:
        marks: Those of the counts.
    """
    blocked = [
        (last[4] - first[4]) / 1e9 / (last[1] - first[1])
        for first, last in itertools.pairwise(marks[1:-1])  # without start-up and end
        if last[1] > first[1]
    ]
    return min(blocked, default=0.0)
