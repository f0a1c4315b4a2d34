"""Results as the JSON holds them, made up: for tests of what is written about a run."""

import json

import numpy as np

from ipufeed.benchmark.measuring.histogram import histogram
from ipufeed.benchmark.measuring.series import Parts, series_section

# Of the JSON, in its order.
SECTIONS = [
    "schema_version",
    "epochs",
    "dataset",
    "settings",
    "machine",
    "startup",
    "steady",
    "latency",
    "memcpy",
    "resources",
    "calibration",
    "queue",
    "links",
    "stages",
    "advice",
    "what_if",
    "series",
    "device",
    "cold",
    "service",
    "processes",
    "warnings",
    "error",
    "comparison",
]
HOSTILE = {
    "markup": "</svg></title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>",
    "lines": "first\nsecond\r\n\tthird\x00\x07\x1b[31m",
    "emoji": "\N{FAMILY} \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "other direction": "\u202egnp.exe\u2066 \u05d0\u05d1\u05d2 \u061c",
    "long": "n" * 10_000,
    "template": "$hash ${title} $$ {0} %s",
    "surrogate": "\ud800",
    "empty": "",
}


def run_of(seconds=4.0, rate=100.0, seed=0):
    """Marks, stamps and parts of a run that fills for a tenth of its time."""
    random = np.random.default_rng(seed)
    elements = max(1, round(seconds * rate))
    gaps = random.gamma(40, 1 / 40, elements) / rate
    gaps[: elements // 10] /= 2
    stamps = 10**12 + 10**8 + (np.cumsum(gaps) * 1e9).astype(np.int64)
    every = max(1, elements // 4000)
    counts = np.unique(np.append(np.arange(1, elements + 1, every), elements))
    at = stamps[counts - 1]
    waited = at - at[0]
    marks = np.stack(
        [at, counts, counts * 400, waited * 8 // 10, waited // 10, counts * 3, counts],
        axis=1,
    )
    parts = Parts(
        requested_ns=10**12,
        first_ns=int(stamps[0]),
        steady_ns=int(stamps[elements // 10]),
        drain_ns=None,
        last_ns=int(stamps[-1]),
        longest_ns=10**9,
        ended=False,
    )
    return marks, stamps, parts


def _reasons(name, rate):
    """Returns the sections with where the time goes, and what to change."""
    return {
        "stages": [
            {
                "name": name,
                "kind": "ParallelMap",
                "share": 0.75,
                "seconds_per_element": 0.0075,
                "advice": "cache it",
            },
            {"name": "batch", "kind": "Batch", "share": 0.25, "parallelism": None},
        ],
        "advice": [
            {
                "code": "cache",
                "stage": name,
                "text": f"cache {name}",
                "predicted_gain": 2.5,
                "measured_gain": 2.25,
                "held": True,
                "note": None,
            },
            {
                "code": "prefetch",
                "stage": "batch",
                "text": "prefetch",
                "predicted_gain": 1.5,
                "measured_gain": 1.0,
                "held": False,
                "note": None,
            },
            {"code": "order", "text": "batch first", "note": f"not tried: {name}"},
        ],
        "what_if": [
            {
                "question": f"{name}=2x",
                "stage": name,
                "elements_per_second": rate,
                "predicted_elements_per_second": None,
                "next": name,
            }
        ],
    }


def result_of(seconds=4.0, rate=100.0, name="train.py:dataset", **changes):
    """Returns a whole result; `changes` replace keys of it."""
    marks, stamps, parts = run_of(seconds, rate)
    gaps = np.diff(stamps)
    result = {
        "schema_version": 1,
        "epochs": [
            {
                "elements_processed": len(stamps),
                "total_bytes_processed": 400 * len(stamps),
                "time_elapsed": seconds,
                "elements_per_second": rate,
                "bandwidth": rate * 400 / 1e9,
            }
        ],
        "dataset": {
            "name": name,
            "element_spec": "float32 (100,)",
            "cardinality": "infinite",
            "bytes_per_element": 400.0,
            "samples_per_element": 8,
        },
        "settings": {"seconds": seconds, "epochs": None, "memcpy": True},
        "machine": {"cpu": "a CPU", "usable_cpus": 2},
        "startup": {"requested_at": "2025-03-01T12:00:00+00:00", "seconds": 0.1},
        "steady": {
            "elements_per_second": rate,
            "bandwidth": rate * 400 / 1e9,
            "interval": [rate * 0.97, rate * 1.03],
            "left_out": [
                {"what": "fill", "seconds": 0.2, "elements": 40, "why": "buffers"}
            ],
        },
        "latency": {
            **dict(zip(("p50", "p99"), np.percentile(gaps, [50, 99]), strict=True)),
            "max": int(gaps.max()),
            "histogram": histogram(gaps),
        }
        if len(gaps)
        else None,
        "resources": {"cpus_busy": 1.5},
        "queue": {"capacity": 32, "starved_share": 0.8, "blocked_share": 0.1},
        "links": None,
        **_reasons(name, rate),
        "device": {
            "au": 0.9,
            "knee": [
                {"step_seconds": step, "au": min(1, step * rate), "starved_share": 0.1}
                for step in (0.002, 0.005, 0.01, 0.02)
            ],
        },
        "series": series_section(marks, parts),
        "warnings": [{"code": "busy_machine", "message": f"others: {name}"}],
        "error": None,
        **changes,
    }
    return json.loads(json.dumps(result))


EMPTY = result_of(
    epochs=[],
    startup=None,
    steady=None,
    latency=None,
    series=None,
    stages=[],
    device=None,
    warnings=[{"code": "empty_dataset", "message": "There was no element."}],
)
ONE_ELEMENT = result_of(seconds=0.01, steady=None, stages=[], device=None)
FAILED = result_of(
    error={
        "type": "InvalidArgumentError",
        "message": "broken <b>file</b>",
        "element": 7,
    }
)
# Before there was a series.
OLD = {
    key: value
    for key, value in result_of(stages=None, device=None).items()
    if key not in ("series", "links", "stages", "device")
}
