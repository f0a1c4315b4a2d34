"""What the reports of a run cost, and what they weigh."""

import json
import time
from typing import Any

import numpy as np

from benchmarks.targets import Row, row

ELEMENTS = 10**6


def rows(quick: bool) -> list[Row]:
    """Measures the time from the stamps of a run to each of its files."""
    repeats = 3 if quick else 11
    taken: dict[str, list[float]] = {name: [] for name in ("all", "html", "parquet")}
    taken["trace"] = []
    sizes = []
    recording = full_recording()
    for seed in range(repeats):
        raw, steady = made_up_run(ELEMENTS, 100.0, seed)
        begun = time.perf_counter()
        result = result_of(raw, steady)
        for kind in ("html", "parquet", "trace"):
            start = time.perf_counter()
            written(kind, result, recording)
            taken[kind].append(time.perf_counter() - start)
        taken["all"].append(time.perf_counter() - begun)
        hour = result_of(*made_up_run(ELEMENTS, 3600.0, seed))
        sizes.append(len(written("html", hour)) / 1e3)
    return [
        row("10^6 elements: all reports", "at most", 2, "s", taken["all"]),
        row("    the page", "", 0, "s", taken["html"]),
        row("    the table", "", 0, "s", taken["parquet"]),
        row("    the trace, as gzip, its recorder full", "", 0, "s", taken["trace"]),
        row("an hour's page", "at most", 500, "kB", sizes),
    ]


def made_up_run(elements: int, seconds: float, seed: int) -> tuple[Any, Any]:
    """Returns outputs of the measuring op that no run had, and their steady state."""
    from ipufeed.benchmark.measuring.run import RawMeasurement
    from ipufeed.benchmark.measuring.steady_state import find_steady

    random = np.random.default_rng(seed)
    gaps = random.gamma(2.0, seconds * 1e9 / elements / 2, elements)
    stamps = 10**12 + np.cumsum(gaps).astype(np.int64)
    # The table of marks is full: 4096 at most, and half of that after it has been thinned.
    counts = np.linspace(1, elements, 4000).astype(np.int64)
    at = stamps[counts - 1]
    waited = random.integers(0, 10**6, len(at)).cumsum()
    depths = random.integers(0, 32, len(at)).cumsum()
    samples = np.arange(1, len(at) + 1)
    marks = np.stack(
        [at, counts, counts * 4096, waited, waited // 3, depths, samples], 1
    )
    counters = {
        "requested_ns": 10**12 - 10**8,
        "first_ns": int(stamps[0]),
        "last_ns": int(stamps[-1]),
        "ended": 0,
    }
    epochs = np.zeros([0, 5], np.int64)
    raw = RawMeasurement(counters, epochs, stamps, None, marks)
    return raw, find_steady(stamps, ended=False)


def result_of(raw: Any, steady: Any) -> dict[str, Any]:
    """Returns the parts of a result that reports are made of, from its JSON."""
    from ipufeed.benchmark.measuring.sections import latency, parts_of
    from ipufeed.benchmark.measuring.series import series_section
    from ipufeed.benchmark.result.json_text import json_text

    result = {
        "schema_version": 1,
        "dataset": {"name": "made up", "samples_per_element": 32},
        "machine": {"cpu": "a CPU", "usable_cpus": 2},
        "settings": {},
        "steady": {"elements_per_second": steady.rate, "interval": steady.interval},
        "latency": latency(raw.stamps),
        "queue": {"capacity": 32},
        "series": series_section(raw.marks, parts_of(raw, steady)),
        "warnings": [],
    }
    stored: dict[str, Any] = json.loads(json_text(result))
    return stored


def full_recording() -> Any:
    """Returns the most events that the recorder keeps of a feeder and a consumer."""
    from ipufeed.benchmark.measuring.recording import EVENTS, Recording
    from ipufeed.executable.tracing.events import Event, Kind

    recording = Recording()
    recording.events = [
        Event(
            kind=kind,
            ordinal=-1,
            number=0,
            name="",
            start_ns=10**12 + place * 10**5,
            end_ns=10**12 + place * 10**5 + 90_123,
            busy_ns=12_345,
            waited_ns=67_890,
            nbytes=4096,
            count=1 + place % 3,
            thread=int(kind),
        )
        for place in range(EVENTS)
        for kind in (Kind.FEEDER, Kind.CONSUMER)
    ]
    return recording


def written(kind: str, result: dict[str, Any], recording: Any = None) -> bytes:
    """Returns the bytes of a report; `recording` is for the trace only."""
    from ipufeed.benchmark.report.files import content

    return content(kind, result, "trace.json.gz", recording)
