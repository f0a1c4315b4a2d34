"""The waits of each link of the path through the device, and the slowest link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipufeed.benchmark.device.run import DeviceRun
from ipufeed.benchmark.measuring.steady_state import Steady
from ipufeed.benchmark.result.sections import DeviceSection, LinksSection
from ipufeed.queues import QueueStats

# If the dataset alone is faster by this ratio, the program waits for the infeed instead.
HAND_OVER = 1.5
# The counters of QueueStats that are sums over the time of a run.
COUNTS = (
    *("elements", "device_waits", "device_parks", "device_waited_s"),
    *("host_waits", "host_parks", "host_waited_s"),
)


def waits(run: DeviceRun) -> tuple[QueueStats, QueueStats]:
    """Returns the waits of infeed and outfeed since the first result, over all passes."""
    # Each pass creates a new infeed, with new counters; the outfeed is the same.
    infeeds = [after[0] for after in run.after]
    outfeeds = [after[1] for after in run.after[-1:]]
    if run.before is None:
        return _difference(infeeds, []), _difference(outfeeds, [])
    return (
        _difference(infeeds, [run.before[0]]),
        _difference(outfeeds, [run.before[1]]),
    )


def _difference(plus: list[QueueStats], minus: list[QueueStats]) -> QueueStats:
    """Returns the counts of the sum of `plus` minus the sum of `minus`."""

    def total(name: str) -> Any:
        counts = [sum(getattr(each, name) for each in stats) for stats in (plus, minus)]
        return max(0, counts[0] - counts[1])

    capacity = max((stats.capacity for stats in minus + plus), default=0)
    return QueueStats("", capacity=capacity, **{name: total(name) for name in COUNTS})


def links_section(
    run: DeviceRun, alone: Steady | None, device: DeviceSection | None
) -> LinksSection:
    """Returns `links` of the result: docs/result.md describes each number.

    Args:
        run: The run through the device.
        alone: The dataset's steady state without a device, or None.
        device: The section of a device with a step time, whose clock has the verdict.
    """
    infeed, outfeed = waits(run)
    seconds = max(1e-9, run.running_ns / 1e9)
    starved = min(1.0, infeed.device_waited_s / seconds)
    blocked = min(1.0, outfeed.device_waited_s / seconds)
    busy = max(0.0, 1.0 - starved - blocked)
    if device is None:
        verdict = _verdict_of(starved, busy, blocked)
        slowest = slowest_link(verdict, run.elements / seconds, alone)
    else:
        slowest = slowest_link(
            device["verdict"],
            device["steps"] / device["seconds"],
            alone,
            waits_at_end=device["last_wait_seconds"] is not None,
        )
    return {
        "slowest": slowest,
        "dataset": None
        if alone is None
        else {
            "elements": alone.elements,
            "elements_per_second": alone.rate,
            "interval": alone.interval,
        },
        "infeed": {
            "capacity": infeed.capacity,
            "starved_share": starved,
            "starved_waits": infeed.device_waits,
            "starved_parks": infeed.device_parks,
            "blocked_share": min(1.0, infeed.host_waited_s / seconds),
            "blocked_waits": infeed.host_waits,
            "blocked_parks": infeed.host_parks,
        },
        "program": {
            "busy_share": busy,
            "seconds_per_element": busy * seconds / max(1, run.elements),
        },
        "outfeed": {
            "capacity": outfeed.capacity,
            "blocked_share": blocked,
            "blocked_waits": outfeed.device_waits,
            "blocked_parks": outfeed.device_parks,
            "stored_bytes": run.stored_bytes,
        },
        "host": {"latency_ns": _percentiles(run.latencies)},
    }


def _verdict_of(starved: float, busy: float, blocked: float) -> str:
    """Returns what a device without a step time waited for most, as `device.verdict`."""
    if blocked > max(starved, busy):
        return "reader-bound"
    return "accelerator-bound" if busy >= starved else "host-bound"


def slowest_link(
    verdict: str, rate: float, alone: Steady | None, *, waits_at_end: bool = False
) -> str:
    """Returns the link that the others waited for: dataset, infeed, program or host.

    Args:
        verdict: As in `device` of the result.
        rate: The elements or steps per second.
        alone: The dataset's steady state without a device, or None.
        waits_at_end: Whether the device waited until the end of the run. The dataset
            then gave no elements, and its rate alone, of the time before, does not count.
    """
    if verdict == "reader-bound":
        return "host"
    if verdict != "host-bound":
        return "program"
    faster = alone is not None and alone.rate > HAND_OVER * rate
    return "infeed" if faster and not waits_at_end else "dataset"


def _percentiles(latencies: NDArray[np.int64]) -> dict[str, float] | None:
    """Returns the count, p50, p90, p99 and max; None without a latency."""
    if len(latencies) == 0:
        return None
    p50, p90, p99 = np.percentile(latencies, [50, 90, 99])
    return {
        "results": len(latencies),
        "p50": float(p50),
        "p90": float(p90),
        "p99": float(p99),
        "max": int(latencies.max()),
    }
