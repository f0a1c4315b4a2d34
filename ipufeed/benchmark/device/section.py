"""`device` of the result: utilisation, verdict, queue depths, results and knee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed.benchmark.device.knee import TOLERANCE, Knee, Point
from ipufeed.benchmark.device.links import waits
from ipufeed.benchmark.device.run import DeviceRun
from ipufeed.benchmark.device.settings import TIMES_BYTES, DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation, utilisation
from ipufeed.benchmark.measuring.steady_state import Steady, find_steady
from ipufeed.benchmark.measuring.warnings import STALLED_SHARE
from ipufeed.benchmark.result.sections import DeviceSection

# A smaller fraction of the time does not determine the verdict.
NEGLIGIBLE = 0.05
# If fewer of the steps waited, their mean length is partly the device's step.
MOSTLY_STARVED = 0.5
# The largest number of samples of the queues in the result.
MOST_SAMPLES = 200
# The host falls behind if the unread results grow by more than this fraction of all, and
# exceed the outfeed's ring.
BEHIND = 0.05


@dataclass(frozen=True)
class DeviceFacts:
    """The input of the section and the warnings.

    Attributes:
        run: The run.
        device: The device's settings.
        last_pass: See find_steady.
        capacity: The capacity of the outfeed's ring.
        alone: The dataset's steady state without a device, or None.
        free: The utilisation of a free source on the same device, or None.
        knee: The sweep, or None.
        samples: The samples of an element, or None if unknown.
        failed: Why the sweep failed, or None.
        interrupted: Whether Ctrl-C interrupted it.
        loader_seconds: The time per element in a loader that tf.data reads, or None.
    """

    run: DeviceRun
    device: DeviceSettings
    last_pass: int
    capacity: int
    alone: Steady | None
    free: Utilisation | None
    knee: Knee | None
    samples: float | None
    failed: str | None = None
    interrupted: bool = False
    loader_seconds: float | None = None

    @property
    def steady(self) -> Steady | None:
        """The steady state of the run, as in `steady` of the result."""
        stamps = self.run.raw.stamps
        can_drain = self.run.ended and len(stamps) == self.run.elements
        return find_steady(stamps, can_drain, self.last_pass)

    @property
    def utilisation(self) -> Utilisation | None:
        """The device's utilisation in the steady state."""
        steady = self.steady
        if steady is None:
            return None
        return utilisation(
            self.run.step_times(),
            self.device.step_ns,
            steady.first,
            steady.last,
            tuple(self.run.begun),
        )


def device_section(facts: DeviceFacts) -> DeviceSection | None:
    """Returns the section (see docs/result.md); None without a steady state."""
    used, device, free, knee = (
        facts.utilisation,
        facts.device,
        facts.free,
        facts.knee,
    )
    if used is None:
        return None
    timed = device.step_seconds is not None
    results = results_section(facts, used)
    last_wait = _last_wait(facts)
    section: DeviceSection = {
        "step_seconds": device.step_seconds,
        "preset": device.preset,
        "bar": device.known_preset.bar if device.known_preset else None,
        "au": used.au if timed else None,
        "starved_time_share": used.starved,
        "starved_steps_share": used.starved_steps,
        "blocked_time_share": used.blocked,
        "overhead_time_share": used.late if timed else None,
        "overhead_seconds_per_step": (free or used).harness_seconds,
        "free_source_au": free.au if free is not None and timed else None,
        "verdict": verdict(used, timed, results, free)
        if last_wait is None
        else _waited_for(facts),
        "last_wait_seconds": last_wait,
        "period_seconds": period(facts, used),
        "steps": used.steps,
        "seconds": used.seconds,
        "queue_depth": depths(facts),
        "results": results,
        "knee": None if knee is None else [_point_row(knee, p) for p in knee.points],
        "knee_deviation": _knee_deviation(knee),
        "knee_tolerance": None if knee is None else TOLERANCE,
    }
    return section


def verdict(
    used: Utilisation,
    timed: bool,
    results: dict[str, Any] | None,
    free: Utilisation | None = None,
) -> str:
    """Returns the bottleneck: host-bound, device-bound, reader-bound or harness-bound.

    Unread results need new memory, which makes steps late. So the simulator is too slow
    only if it is also too slow with a free source, whose results are read.
    """
    piled_up = results is not None and not results["keeps_up"]
    if used.blocked > max(NEGLIGIBLE, used.starved):
        return "reader-bound"
    if timed and used.late > max(NEGLIGIBLE, used.starved):
        in_time = free is not None and free.late <= NEGLIGIBLE
        return "reader-bound" if piled_up and in_time else "harness-bound"
    if used.starved > NEGLIGIBLE:
        return "host-bound"
    return "reader-bound" if piled_up else "device-bound"


def _last_wait(facts: DeviceFacts) -> float | None:
    """Returns the seconds of a wait until the end of the run, which no step includes.

    None for one that is not longer than a stall: see warn.stalled.
    """
    run = facts.run
    stamps = run.raw.stamps
    if run.ended or run.failure is not None or len(stamps) < 2:
        return None
    finished_ns = run.raw.counters["finished_ns"]
    silence = finished_ns - int(stamps[-1]) - facts.device.step_ns
    whole = finished_ns - int(stamps[0])
    if silence <= STALLED_SHARE * whole or silence <= 2 * int(np.diff(stamps).max()):
        return None
    return silence / 1e9


def _waited_for(facts: DeviceFacts) -> str:
    """Returns the verdict of a device that waited until the end of the run."""
    infeed, outfeed = waits(facts.run)
    blocked = outfeed.device_waited_s > infeed.device_waited_s
    return "reader-bound" if blocked else "host-bound"


def period(facts: DeviceFacts, used: Utilisation) -> float | None:
    """Returns the pipeline's seconds per element: a shorter step would starve.

    They are those of the run if most of its steps waited for their element, else those of
    the dataset alone; None if that was not measured.
    """
    if facts.knee is not None:
        return facts.knee.period
    starved = used.starved > NEGLIGIBLE and used.starved_steps >= MOSTLY_STARVED
    if starved and used.blocked <= NEGLIGIBLE:
        return used.period
    return None if facts.alone is None else 1 / facts.alone.rate


def results_section(facts: DeviceFacts, used: Utilisation) -> dict[str, Any] | None:
    """Returns `results`: whether the host keeps up; None without a setting of results."""
    device, run = facts.device, facts.run
    if device.result_bytes is None and device.read_seconds is None:
        return None
    each = device.result_bytes or TIMES_BYTES
    unread = [sample[2] for sample in run.depths] or [0]
    produced = used.steps / used.seconds
    read = None if device.read_seconds is None else 1 / device.read_seconds
    growth = slope(run.depths)
    behind = unread[-1] > facts.capacity and growth > BEHIND * produced
    return {
        "bytes": each,
        "read_seconds": device.read_seconds,
        "produced_per_second": produced,
        "read_per_second_at_most": read,
        "unread_most": max(unread),
        "unread_bytes_most": max(unread) * each,
        "growth_per_second": growth,
        "growth_bytes_per_second": growth * each,
        "stored_bytes": run.stored_bytes,
        "blocked_time_share": used.blocked,
        "keeps_up": not behind and used.blocked <= NEGLIGIBLE,
    }


def slope(samples: list[tuple[int, int, int]]) -> float:
    """Returns the growth of unread results per second, between the samples' halves."""
    if len(samples) < 4:
        return 0.0
    table = np.array(samples, dtype=np.float64)
    half = len(table) // 2
    early, late = table[:half].mean(axis=0), table[half:].mean(axis=0)
    return float((late[2] - early[2]) / ((late[0] - early[0]) / 1e9))


def depths(facts: DeviceFacts) -> list[dict[str, float]]:
    """Returns samples of the queues: seconds since the first element, and their fill."""
    samples = facts.run.depths
    every = max(1, -(-len(samples) // MOST_SAMPLES))
    first_ns = facts.run.first_ns
    return [
        {"seconds": (ns - first_ns) / 1e9, "infeed": infeed, "unread_results": unread}
        for ns, infeed, unread in samples[::every]
    ]


def _point_row(knee: Knee, point: Point) -> dict[str, float]:
    return {
        "step_seconds": point.step_seconds,
        "au": point.found.au,
        "starved_share": point.found.starved,
        "expected_au": knee.expected(point),
        "overhead_share": point.found.late,
        "steps": point.found.steps,
    }


def _knee_deviation(knee: Knee | None) -> dict[str, float] | None:
    """Returns the point with the largest deviation from min(1, step / period)."""
    found = None if knee is None else knee.deviation()
    if found is None:
        return None
    return {"step_seconds": found[0].step_seconds, "au": found[1]}
