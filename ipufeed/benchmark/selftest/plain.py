"""Checks of what is measured without a device: rates, counts, ends, errors, records."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, about, exact

RATES_MS = (1, 2, 5)


def rates(quick: bool) -> list[Row]:
    """Sources that sleep a known time for each element."""
    rows = []
    for each_ms in RATES_MS:
        seconds = each_ms / 1e3
        sleeps = 40 if quick else 100
        before = planted.true_period(seconds, sleeps)
        result = measure(
            planted.sleeping(seconds), Settings(seconds=0.6 if quick else 1.5)
        )
        period = (before + planted.true_period(seconds, sleeps)) / 2
        assert result.steady is not None
        rows.append(
            about(
                f"rate, {each_ms} ms per element",
                "/s",
                1 / period,
                result.steady["elements_per_second"],
                0.93,
                1.07,
            )
        )
    return rows


def counts(quick: bool) -> list[Row]:
    """A dataset that ends early, one of a single element, and one of none."""
    del quick
    early = measure(planted.counted(137), Settings(epochs=1, elements=1000))
    one = measure(planted.counted(1), Settings(epochs=1, elements=1000))
    none = measure(planted.counted(0), Settings(seconds=1))
    return [
        exact("ends early: elements", 137, early.elements),
        exact("ends early: bytes", 137 * 4, total_bytes(early)),
        exact("ends early: warning", True, "dataset_ended" in codes(early)),
        exact("one element: elements", 1, one.elements),
        exact("one element: rate", None, rate(one)),
        exact("one element: warning", True, "no_rate" in codes(one)),
        exact("no element: elements", 0, none.elements),
    ]


def errors(quick: bool) -> list[Row]:
    """A dataset that raises in the middle."""
    del quick
    result = measure(planted.failing(50), Settings(seconds=5))
    error = result.error or {"type": None, "element": None}
    return [
        exact("raises: elements before", 50, result.elements),
        exact("raises: at element", 50, error["element"]),
        exact("raises: type", "InvalidArgumentError", error["type"]),
    ]


def records(quick: bool) -> list[Row]:
    """Reading records of 100 kB, which a benchmark that skips does not do."""
    files = planted.Records(200 if quick else 500)
    try:
        files.seconds_to_read()  # the file is in the page cache from here on
        reads, ours, skips, sizes = [], [], [], []
        for _ in range(3 if quick else 5):
            reads.append(files.seconds_to_read())
            result = measure(files.dataset(), Settings(passes=1))
            ours.append(span(result))
            skips.append(files.seconds_to_skip())
            sizes.append(total_bytes(result))
    finally:
        files.close()
    read, our, skip = (float(np.median(times)) * 1e6 for times in (reads, ours, skips))
    return [
        about("records: time of each", "µs", read, our, 0.6, 1.7),
        exact("records: bytes", files.count * planted.RECORD_BYTES, sizes[-1]),
        # Not judged: it says what the first row is there for.
        Row("records: what skip() says", "µs", skip, skip, (0.0, float("inf"))),
    ]


def span(result: Any) -> float:
    """Seconds for each element, of a pass that begins with the request."""
    epoch = result.epochs[0]
    return float(epoch["time_elapsed"] / epoch["elements_processed"])


def rate(result: Any) -> float | None:
    """The steady rate, or None."""
    return None if result.steady is None else result.steady["elements_per_second"]


def total_bytes(result: Any) -> int:
    """Bytes of all epochs."""
    return int(sum(epoch["total_bytes_processed"] for epoch in result.epochs))


def codes(result: Any) -> set[str]:
    """The warnings' codes."""
    return {warning["code"] for warning in result.warnings}
