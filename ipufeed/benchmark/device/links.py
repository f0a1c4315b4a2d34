"""What each link of the way through the device did, and which one held the others up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed.benchmark.device.run import DeviceRun
from ipufeed.benchmark.measuring.steady_state import Steady
from ipufeed.benchmark.result.sections import LinksSection
from ipufeed.queues import QueueStats

# A dataset that is so much faster alone is not what the program waits for: the hand-over
# is.
HAND_OVER = 1.5


@dataclass(frozen=True)
class Waits:
    """A queue's waits from the first result on; see QueueStats."""

    elements: int
    capacity: int
    device_waits: int
    device_parks: int
    device_waited_s: float
    host_waits: int
    host_parks: int
    host_waited_s: float


def waits(run: DeviceRun) -> tuple[Waits, Waits]:
    """Of the infeed and of the outfeed, over all passes."""
    # Each pass makes a new infeed, with new counters; the outfeed goes on.
    infeeds = [after[0] for after in run.after]
    outfeeds = [after[1] for after in run.after[-1:]]
    if run.before is None:
        return add([], infeeds), add([], outfeeds)
    return add([run.before[0]], infeeds), add([run.before[1]], outfeeds)


def add(minus: list[QueueStats], plus: list[QueueStats]) -> Waits:
    """The sum of the one without the sum of the other."""

    def total(name: str) -> Any:
        value = sum(getattr(stats, name) for stats in plus) - sum(
            getattr(stats, name) for stats in minus
        )
        return max(0, value)

    return Waits(
        elements=total("elements"),
        capacity=max((stats.capacity for stats in minus + plus), default=0),
        device_waits=total("device_waits"),
        device_parks=total("device_parks"),
        device_waited_s=total("device_waited_s"),
        host_waits=total("host_waits"),
        host_parks=total("host_parks"),
        host_waited_s=total("host_waited_s"),
    )


def links_section(run: DeviceRun, alone: Steady | None) -> LinksSection:
    """`links` of the result: docs/result.md says how to read each number."""
    infeed, outfeed = waits(run)
    table = run.table
    seconds = max(1e-9, run.running_ns / 1e9)
    starved = min(1.0, infeed.device_waited_s / seconds)
    held = min(1.0, outfeed.device_waited_s / seconds)
    busy = max(0.0, 1.0 - starved - held)
    rate = table.elements / seconds
    return {
        "slowest": slowest(starved, busy, held, rate, alone),
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
            "seconds_per_element": busy * seconds / max(1, table.elements),
        },
        "outfeed": {
            "capacity": outfeed.capacity,
            "blocked_share": held,
            "blocked_waits": outfeed.device_waits,
            "blocked_parks": outfeed.device_parks,
            "stored_bytes": run.stored_bytes,
        },
        "host": {"latency_ns": percentiles(run.latencies)},
    }


def slowest(
    starved: float, busy: float, held: float, rate: float, alone: Steady | None
) -> str:
    """The link that the others waited for: dataset, infeed, program or host."""
    if held > max(starved, busy):
        return "host"
    if busy >= starved:
        return "program"
    if alone is not None and alone.rate > HAND_OVER * rate:
        return "infeed"
    return "dataset"


def slowest_by_verdict(verdict: str, rate: float, alone: Steady | None) -> str:
    """The same of a device with a step time, whose own clock knows better."""
    if verdict == "reader-bound":
        return "host"
    if verdict != "host-bound":
        return "program"
    return (
        "infeed" if alone is not None and alone.rate > HAND_OVER * rate else "dataset"
    )


def percentiles(latencies: list[int]) -> dict[str, float] | None:
    """p50, p90, p99, max, and of how many; None of none."""
    if not latencies:
        return None
    p50, p90, p99 = np.percentile(latencies, [50, 90, 99])
    return {
        "results": len(latencies),
        "p50": float(p50),
        "p90": float(p90),
        "p99": float(p99),
        "max": int(max(latencies)),
    }
