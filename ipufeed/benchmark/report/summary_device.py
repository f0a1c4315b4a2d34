"""The device, as rows of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.render.units import duration, number, size

# As in knee.py, which imports TensorFlow: a point beyond it is void.
MOST_LATE = 0.05
VERDICTS = {
    "host-bound": "host-bound: the device waits for the pipeline",
    "device-bound": "device-bound: the pipeline keeps it busy",
    "reader-bound": "reader-bound: the host does not keep up with the results",
    "harness-bound": "none: the simulation is slower than such a step",
}


# A program that waits for less of its time than this has not waited.
HARDLY = 0.005
PILE_UP = "the host: results come faster than it reads them, and pile up unread"
WORDS = {
    "dataset": "the dataset: the program waited for it",
    "infeed": "the hand-over to the program: the dataset alone is faster",
    "program": "the program itself, copies into it included",
    "host": "the host: the program waited for room in the outfeed",
}


def device_rows(
    device: Mapping[str, Any] | None, steady: Mapping[str, Any] | None
) -> list[tuple[str, str | None]]:
    """Rows for the summary; without a device what step the pipeline is fast enough for."""
    if device is None:
        return [("keeps busy", keeps_busy(steady))]
    step, au = device["step_seconds"], device["au"]
    rows: list[tuple[str, str | None]] = [("verdict", VERDICTS[device["verdict"]])]
    if step is not None:
        bar = device["bar"]
        asked = ""
        if bar is not None:
            outcome = "reached" if au >= bar else "missed"
            asked = f"; MLPerf's bar of {bar:.0%} is {outcome}"
        rows += [
            (
                "utilisation (AU)",
                f"{au:.1%} with steps of {duration(step)}"
                f"{'' if device['preset'] is None else ' (' + device['preset'] + ')'}"
                f"{asked}",
            ),
            (
                "starved",
                f"{device['starved_time_share']:.1%} of the time, "
                f"{device['starved_steps_share']:.1%} of {number(device['steps'])} steps",
            ),
            (
                "overhead",
                f"{duration(device['overhead_seconds_per_step'])} of each step are the "
                "simulation's" + free_source(device["free_source_au"]),
            ),
        ]
    if device["period_seconds"] is not None:
        rows.append(
            (
                "starves below",
                f"steps of {duration(device['period_seconds'])}, the pipeline's period",
            )
        )
    return [*rows, ("results", results(device["results"])), ("knee", knee(device))]


def keeps_busy(steady: Mapping[str, Any] | None) -> str | None:
    """The step time from which on the pipeline is not a bottleneck."""
    if steady is None:
        return None
    period = duration(1 / steady["elements_per_second"])
    return f"a device whose step takes {period} or longer; a faster one starves"


def free_source(au: float | None) -> str:
    """What is left of the time with a source that is never late."""
    return "" if au is None else f"; a free source gets an AU of {au:.1%}"


def results(section: Mapping[str, Any] | None) -> str | None:
    """Whether the host reads as fast as the device gives."""
    if section is None:
        return None
    rate = number(section["produced_per_second"])
    given = f"{rate} results of {size(section['bytes'])} a second"
    most = f"at most {number(section['unread_most'])} were unread"
    blocked = f"the device was blocked {section['blocked_time_share']:.1%} of the time"
    if section["keeps_up"]:
        return f"{given}: the host keeps up, {most}"
    return f"{given}: the host falls behind, {most}, {blocked}"


def knee(device: Mapping[str, Any]) -> str | None:
    """The sweep in one line, and how far it is from the bend of an even pipeline."""
    points = device["knee"]
    if not points:
        return None
    shown = ", ".join(
        f"{duration(point['step_seconds'])} {point['au']:.0%}"
        + ("*" if point["overhead_share"] > MOST_LATE else "")
        for point in points
    )
    if "*" in shown:
        shown += " (* the simulation was late, which is not the pipeline's)"
    off = device["knee_deviation"]
    if off is None:
        return shown
    return (
        f"{shown}; furthest from min(1, step / period): {100 * off['au']:+.1f} points"
    )


def link_rows(links: Mapping[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result without links."""
    if links is None:
        return []
    infeed, outfeed = links["infeed"], links["outfeed"]
    dataset, latency = links["dataset"], links["host"]["latency_ns"]
    slowest = WORDS[links["slowest"]]
    if links["slowest"] == "host" and outfeed["blocked_share"] < HARDLY:
        slowest = PILE_UP  # what lies behind the outfeed has room for them
    return [
        ("slowest link", slowest),
        (
            "dataset alone",
            None
            if dataset is None
            else f"{number(dataset['elements_per_second'])} elements/s",
        ),
        (
            "infeed",
            f"the program starved {infeed['starved_share']:.1%} of the time, the dataset "
            f"was blocked {infeed['blocked_share']:.1%}",
        ),
        (
            "device program",
            f"{duration(links['program']['seconds_per_element'])} per element, busy "
            f"{links['program']['busy_share']:.1%} of the time",
        ),
        (
            "outfeed",
            f"the program was blocked {outfeed['blocked_share']:.1%} of the time",
        ),
        (
            "host dequeue",
            None
            if latency is None
            else f"a result is visible after p50 {duration(latency['p50'] / 1e9)}, p99 "
            f"{duration(latency['p99'] / 1e9)}",
        ),
    ]
