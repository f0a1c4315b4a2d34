"""Checks of measurements without a device: rates, counts, ends, errors, records."""

from __future__ import annotations

from ipufeed.benchmark import Result, Settings, measure
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, about, exact

RATES_MS = (1, 2, 5)
LEAST = 0.93  # of the true rate
ATTEMPTS = 10  # at most, to measure it
ANYTHING = (float("-inf"), float("inf"))


def planted_rate(each_ms: int, quick: bool) -> list[Row]:
    """Measures a source that sleeps a known time for each element.

    The best of three, or of more while none is high enough: load of other processes, or a
    virtual machine that is not run for a while, makes a rate lower, never higher.
    """
    seconds = each_ms / 1e3
    periods, found = list[float](), [0.0]
    for attempt in range(ATTEMPTS):
        if attempt >= 3 and max(found) >= LEAST / min(periods):
            break
        result = measure(
            planted.sleeping(seconds), Settings(seconds=0.3 if quick else 0.8)
        )
        periods.append(planted.true_period(seconds, 30))
        found.append(_rate(result) or 0.0)
    what = f"rate, {each_ms} ms per element"
    return [about(what, "/s", 1 / min(periods), max(found), LEAST, 1.07)]


def counts(quick: bool) -> list[Row]:
    """Measures a dataset that ends early, one with a single element, and an empty one."""
    del quick
    early = measure(planted.counted(137), Settings(epochs=1, elements=1000))
    one = measure(planted.counted(1), Settings(epochs=1, elements=1000))
    none = measure(planted.counted(0), Settings(seconds=1))
    return [
        exact("ends early: elements", 137, early.elements),
        exact("ends early: bytes", 137 * 4, _total_bytes(early)),
        exact("ends early: warning", True, "dataset_ended" in _codes(early)),
        exact("one element: elements", 1, one.elements),
        exact("one element: rate", None, _rate(one)),
        exact("one element: warning", True, "no_rate" in _codes(one)),
        exact("no element: elements", 0, none.elements),
    ]


def errors(quick: bool) -> list[Row]:
    """Measures a dataset that raises in the middle."""
    del quick
    result = measure(planted.failing(50), Settings(seconds=5))
    element = result.error["element"] if result.error else None
    kind = result.error["type"] if result.error else None
    return [
        exact("raises: elements before", 50, result.elements),
        exact("raises: at element", 50, element),
        exact("raises: its own type", True, kind == "InvalidArgumentError"),
    ]


def records(quick: bool) -> list[Row]:
    """Measures reading records of 100 kB, which a benchmark that skips would not do."""
    files = planted.Records(200)
    last = files.count - 1
    times: dict[str, list[float]] = {}
    try:
        for _ in range(4 if quick else 8):
            result = measure(files.dataset(), Settings(passes=4))
            for name, seconds in (
                ("ours", 1 / (_rate(result) or float("nan"))),
                ("four passes", files.cpu_seconds_to_read(4)),
                ("a pass", files.cpu_seconds_to_read(1)),
                ("to the last", files.seconds_to_skip(last)),
                ("to the first", files.seconds_to_skip(0)),
            ):
                times.setdefault(name, []).append(seconds * 1e6)
    finally:
        files.close()
    # The minimum of each: load of other processes makes all of them slower. Differences,
    # because the start of a loop takes time, too. A serial reader takes at least its CPU
    # time, which the load of others does not increase.
    least = {name: min(seconds) for name, seconds in times.items()}
    read = (least["four passes"] - least["a pass"]) / (3 * files.count)
    skip = (least["to the last"] - least["to the first"]) / last
    bytes_read = 4 * files.count * planted.RECORD_BYTES
    return [
        about("records: time of each", "µs", read, least["ours"], 0.6, 3.0),
        exact("records: bytes", bytes_read, _total_bytes(result)),
        # Always passes: shown for comparison with the first row.
        Row("records: time with skip()", "µs", skip, skip, ANYTHING),
    ]


def _rate(result: Result) -> float | None:
    return None if result.steady is None else result.steady["elements_per_second"]


def _total_bytes(result: Result) -> int:
    return sum(epoch["total_bytes_processed"] for epoch in result.epochs)


def _codes(result: Result) -> set[str]:
    return {warning["code"] for warning in result.warnings}
