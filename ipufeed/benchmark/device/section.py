"""`device` of the result: utilisation, which side waited, the knee, and what to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed.benchmark.device.knee import TOLERANCE, Knee
from ipufeed.benchmark.device.links import waits
from ipufeed.benchmark.device.run import DeviceRun
from ipufeed.benchmark.device.settings import TIMES_BYTES, DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation, utilisation
from ipufeed.benchmark.measuring.steady_state import Steady, find_steady
from ipufeed.benchmark.measuring.warnings import STALLED_SHARE
from ipufeed.benchmark.result.sections import DeviceSection

# Less than this share of the time gives no verdict.
NEGLIGIBLE = 0.05
# Looks at the queues that are kept.
MOST_LOOKS = 200
# The host falls behind if it leaves more than this share of the results, and more than
# the outfeed holds anyway.
BEHIND = 0.05


@dataclass(frozen=True)
class DeviceFacts:
    """What the section and the warnings are made of.

    Attributes:
        run: The run.
        device: What the device was asked to do.
        last_pass: See find_steady.
        capacity: Results that the outfeed's ring holds.
        alone: The dataset's steady state without a device, or None.
        free: A free source on the same device, or None.
        knee: The sweep, or None.
        samples: Samples in an element, or None where that is not known.
        failed: What kept the sweep from being made, or None.
        interrupted: Whether Ctrl-C kept it.
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

    @property
    def steady(self) -> Steady | None:
        """The steady state of the run, which `steady` of the result is, too."""
        stamps = self.run.table.stamps()
        can_drain = self.run.ended and len(stamps) == self.run.table.elements
        return find_steady(stamps, can_drain, self.last_pass)

    @property
    def utilisation(self) -> Utilisation | None:
        """The device's time in the steady state."""
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
    """The section, for docs/result.md; None of a run without a steady state."""
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
        "verdict": last_wait(facts) or verdict(used, timed, results, free),
        "period_seconds": period(facts, used),
        "steps": used.steps,
        "seconds": used.seconds,
        "queue_depth": depths(facts),
        "results": results,
        "knee": None if knee is None else [point_row(knee, p) for p in knee.points],
        "knee_deviation": knee_deviation(knee),
        "knee_tolerance": None if knee is None else TOLERANCE,
    }
    return section


def verdict(
    used: Utilisation,
    timed: bool,
    results: dict[str, Any] | None,
    free: Utilisation | None = None,
) -> str:
    """host-bound, device-bound, reader-bound or harness-bound: what to look at first.

    With results that pile up, each needs memory of its own, which makes steps late. The
    simulation is too slow only if it is so with a free source, whose results are read.
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


def last_wait(facts: DeviceFacts) -> str | None:
    """Whose a wait is that lasted to the end of the run, so that no step has it.

    None for one that is no longer than a stall is: see warn.stalled.
    """
    run = facts.run
    stamps = run.table.stamps()
    if run.ended or run.failure is not None or len(stamps) < 2:
        return None
    silence = run.finished_ns - int(stamps[-1]) - facts.device.step_ns
    whole = run.finished_ns - int(stamps[0])
    if silence <= STALLED_SHARE * whole or silence <= 2 * int(np.diff(stamps).max()):
        return None
    infeed, outfeed = waits(run)
    held = outfeed.device_waited_s > infeed.device_waited_s
    return "reader-bound" if held else "host-bound"


def period(facts: DeviceFacts, used: Utilisation) -> float | None:
    """Seconds between two elements of the pipeline: a shorter step would starve."""
    if facts.knee is not None:
        return facts.knee.period
    if used.starved > NEGLIGIBLE >= used.blocked:
        return used.period
    return None if facts.alone is None else 1 / facts.alone.rate


def results_section(facts: DeviceFacts, used: Utilisation) -> dict[str, Any] | None:
    """How the host kept up with the results; None where it was not asked to do much."""
    device, run = facts.device, facts.run
    if device.result_bytes is None and device.read_seconds is None:
        return None
    each = device.result_bytes or TIMES_BYTES
    unread = [look[2] for look in run.depths] or [0]
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


def slope(looks: list[tuple[int, int, int]]) -> float:
    """Unread results that are added in a second, from first to last look's halves."""
    if len(looks) < 4:
        return 0.0
    table = np.array(looks, dtype=np.float64)
    half = len(table) // 2
    early, late = table[:half].mean(axis=0), table[half:].mean(axis=0)
    return float((late[2] - early[2]) / ((late[0] - early[0]) / 1e9))


def depths(facts: DeviceFacts) -> list[dict[str, float]]:
    """Looks at the queues: seconds from the first element, elements and results in them."""
    looks = facts.run.depths
    every = max(1, -(-len(looks) // MOST_LOOKS))
    first_ns = facts.run.table.first_ns
    return [
        {"seconds": (ns - first_ns) / 1e9, "infeed": infeed, "unread_results": unread}
        for ns, infeed, unread in looks[::every]
    ]


def point_row(knee: Knee, point: Any) -> dict[str, float]:
    """A step time of the sweep."""
    return {
        "step_seconds": point.step_seconds,
        "au": point.found.au,
        "starved_share": point.found.starved,
        "expected_au": knee.expected(point),
        "overhead_share": point.found.late,
        "steps": point.found.steps,
    }


def knee_deviation(knee: Knee | None) -> dict[str, float] | None:
    """The point that is furthest from min(1, step / period)."""
    found = None if knee is None else knee.deviation()
    if found is None:
        return None
    return {"step_seconds": found[0].step_seconds, "au": found[1]}
