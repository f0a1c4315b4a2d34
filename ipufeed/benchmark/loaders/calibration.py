"""Measures the cost of the loop itself: without a loader, and as it was in the run.

In a run an element is new and not in the CPU's caches, which the loader has used: what is
asked of it takes up to twice as long as with the same element again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.benchmark.loaders.leaves import Element
from ipufeed.benchmark.loaders.rows import Rows


def calibrate(
    element: Element,
    copy: bool,
    seconds: float,
    interval_s: float,
    rows: Rows | None = None,
) -> tuple[int, float] | None:
    """Measures the cost of the loop by repeating one element without a loader.

    Returns:
        Elements, and seconds per element of the fastest interval; None without elements.
    """
    limits = Limits(
        epochs=0,
        elements_per_epoch=0,
        epoch_ns=round(interval_s * 1e9),
        seconds_ns=round(seconds * 1e9),
        passes=1,
        epoch_per_pass=False,
        copy=copy,
    )
    consumer = Consumer(
        lambda: contextlib.nullcontext(itertools.repeat(element)), limits, rows
    )
    consumer.run()
    consumer.finish()
    times = [
        (end - start) / 1e9 / elements
        for elements, _, _, start, end in consumer.counts.epochs[1:]
        if end - start >= limits.epoch_ns / 2
    ]
    if not times:
        counts = consumer.counts
        if counts.elements < 2:
            return None
        times = [(counts.last_ns - counts.first_ns) / 1e9 / (counts.elements - 1)]
    return consumer.counts.elements - 1, min(times)


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
