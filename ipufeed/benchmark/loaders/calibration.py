"""Measures the cost of the loop itself."""

from __future__ import annotations

import contextlib
import itertools

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
