"""`device` of the result: utilisation, who held whom up, the knee, and what to know."""

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

# Less than this share of the time is nobody's verdict.
NEGLIGIBLE = 0.05
# A harness that takes more of a step than this is too slow for it.
MOST_HARNESS = 0.5
# A free source must keep the device at least so busy.
LEAST_FREE = 0.98
# Fewer steps make a magnitude.
FEWEST_STEPS = 20
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


def device_section(facts: DeviceFacts) -> dict[str, Any] | None:
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
    return {
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


def verdict(
    used: Utilisation,
    timed: bool,
    results: dict[str, Any] | None,
    free: Utilisation | None = None,
) -> str:
    """host-bound, device-bound, reader-bound or harness-bound: who to look at first.

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
    """Whose a wait is that lasted to the end of the run, so that no step tells of it.

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


def device_warnings(facts: DeviceFacts) -> list[dict[str, str]]:
    """What to know before quoting the utilisation."""
    used = facts.utilisation
    if used is None:
        return []
    found = [
        too_short_a_step(facts, used),
        few_steps(facts, used),
        other_batch(facts),
        bent_knee(facts),
        short_knee(facts),
        falls_behind(facts, used),
    ]
    return [{"code": code, "message": message} for code, message in filter(None, found)]


Warning_ = tuple[str, str] | None


def too_short_a_step(facts: DeviceFacts, used: Utilisation) -> Warning_:
    """The simulation itself takes too much of it."""
    step, free = facts.device.step_seconds, facts.free
    if step is None or free is None:
        return None
    if free.harness_seconds <= MOST_HARNESS * step and free.au >= LEAST_FREE:
        return None
    return (
        "step_too_short",
        f"Handing an element of this size over takes {free.harness_seconds * 1e6:.3g} µs "
        f"of a step of {step * 1e6:.3g} µs, and a free source gets an AU of {free.au:.0%}: "
        "what is missing there is the simulation's, not the pipeline's.",
    )


def few_steps(facts: DeviceFacts, used: Utilisation) -> Warning_:
    """An AU from hardly any steps."""
    if used.steps >= FEWEST_STEPS or facts.device.step_seconds is None:
        return None
    return (
        "few_steps",
        f"The AU rests on {used.steps} steps: take it as a magnitude, or ask for more "
        "(--seconds).",
    )


def other_batch(facts: DeviceFacts) -> Warning_:
    """A preset's step time for a batch that is not the preset's."""
    preset = facts.device.known_preset
    if preset is None or facts.samples is None or facts.samples == preset.batch:
        return None
    return (
        "preset_batch",
        f"The step time of {preset.name} is that of a batch of {preset.batch}, and the "
        f"elements hold {facts.samples:g} samples: make batches of {preset.batch}, or "
        f"give the time of yours (--step-time "
        f"{preset.seconds * facts.samples / preset.batch * 1e3:.3g}ms, if it scales).",
    )


def bent_knee(facts: DeviceFacts) -> Warning_:
    """A pipeline that is not even."""
    found = None if facts.knee is None else facts.knee.deviation()
    if found is None or facts.knee is None or abs(found[1]) <= TOLERANCE:
        return None
    point, off = found
    told = (
        "elements come in bursts, which its buffers do not even out, or its rate changed "
        "meanwhile"
        if off < 0
        else "its rate changed during the sweep, or its buffers held more than was used up"
    )
    return (
        "knee_deviates",
        f"At a step of {point.step_seconds * 1e3:.3g} ms the AU is {point.found.au:.0%}, "
        f"where an even pipeline would reach {facts.knee.expected(point):.0%}: {told}.",
    )


def short_knee(facts: DeviceFacts) -> Warning_:
    """A sweep that was not gone through, for a reason that nothing else tells."""
    if facts.interrupted or facts.run.failure is not None:
        return None
    if not facts.device.knee or facts.failed is not None:
        return (
            None
            if facts.failed is None
            else ("knee_failed", f"There is no knee: {facts.failed}.")
        )
    if facts.knee is not None and not facts.knee.ended:
        return None
    return (
        "knee_cut_short",
        "The dataset ended in the sweep of step times: repeat() it for a whole knee.",
    )


def falls_behind(facts: DeviceFacts, used: Utilisation) -> Warning_:
    """Results that pile up."""
    results = results_section(facts, used)
    if results is None or results["keeps_up"]:
        return None
    if used.blocked > NEGLIGIBLE:
        told = f"the device was blocked {used.blocked:.0%} of the time"
    else:
        told = (
            f"what is unread grows by {results['growth_bytes_per_second'] / 1e6:.3g} MB/s, "
            "and the device will be blocked once the queue's limit is reached"
        )
    return (
        "results_pile_up",
        f"The host does not keep up with the results ({results['produced_per_second']:.3g}"
        f" per second): {told}. Read faster, or give fewer or smaller results.",
    )
