"""Checks of what is measured without a device: rates, counts, ends, errors, records."""

from __future__ import annotations

from typing import Any

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, about, exact

RATES_MS = (1, 2, 5)
ANYTHING = (float("-inf"), float("inf"))


def planted_rate(each_ms: int, quick: bool) -> list[Row]:
    """A source that sleeps a known time for each element.

    The best of three: other users of the CPU make a rate lower, and never higher.
    """
    seconds = each_ms / 1e3
    periods, found = [], []
    for _ in range(3):
        result = measure(
            planted.sleeping(seconds), Settings(seconds=0.3 if quick else 0.8)
        )
        periods.append(planted.true_period(seconds, 30))
        found.append(rate(result) or float("nan"))
    what = f"rate, {each_ms} ms per element"
    return [about(what, "/s", 1 / min(periods), max(found), 0.93, 1.07)]


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
        exact("raises: its own type", True, error["type"] == "InvalidArgumentError"),
    ]


def records(quick: bool) -> list[Row]:
    """Reading records of 100 kB, which a benchmark that skips does not do."""
    files = planted.Records(200)
    last = files.count - 1
    times: dict[str, list[float]] = {}
    try:
        for _ in range(4 if quick else 8):
            result = measure(files.dataset(), Settings(passes=4))
            for name, seconds in (
                ("ours", 1 / (rate(result) or float("nan"))),
                ("four passes", files.cpu_seconds_to_read(4)),
                ("a pass", files.cpu_seconds_to_read(1)),
                ("to the last", files.seconds_to_skip(last)),
                ("to the first", files.seconds_to_skip(0)),
            ):
                times.setdefault(name, []).append(seconds * 1e6)
    finally:
        files.close()
    # The least of each: other users of the machine make all of them slower. Differences,
    # since a loop has a start of its own. No serial reader takes less time than it takes
    # CPU time, which others do not add to; it may take more.
    least = {name: min(seconds) for name, seconds in times.items()}
    read = (least["four passes"] - least["a pass"]) / (3 * files.count)
    skip = (least["to the last"] - least["to the first"]) / last
    bytes_read = 4 * files.count * planted.RECORD_BYTES
    return [
        about("records: time of each", "µs", read, least["ours"], 0.6, 3.0),
        exact("records: bytes", bytes_read, total_bytes(result)),
        # Not judged: it says what the first row is there for.
        Row("records: what skip() says", "µs", skip, skip, ANYTHING),
    ]


def rate(result: Any) -> float | None:
    """The steady rate, or None."""
    return None if result.steady is None else result.steady["elements_per_second"]


def total_bytes(result: Any) -> int:
    """Bytes of all epochs."""
    return int(sum(epoch["total_bytes_processed"] for epoch in result.epochs))


def codes(result: Any) -> set[str]:
    """The warnings' codes."""
    return {warning["code"] for warning in result.warnings}
