"""Rows of the summary for a run through the device."""

from __future__ import annotations

from ipufeed.benchmark.report.protocols import Row, Section
from ipufeed.render.units import duration, number, size

# As in knee.py, which imports TensorFlow: a point with more overhead does not count.
MOST_LATE = 0.05
VERDICTS = {
    "host-bound": "host-bound: the device waits for the pipeline",
    "device-bound": "device-bound: the pipeline keeps it busy",
    "reader-bound": "reader-bound: the host does not keep up with the results",
    "harness-bound": "none: the simulation is slower than such a step",
}

# A program blocked for less than this fraction of its time was not blocked.
HARDLY = 0.005
PILE_UP = "the host: results come faster than it reads them, and pile up unread"
SLOWEST = {
    "dataset": "the dataset: the program waited for it",
    "infeed": "the hand-over to the program: the dataset alone is faster",
    "program": "the program itself, copies into it included",
    "host": "the host: the program waited for room in the outfeed",
}


def device_rows(device: Section | None, steady: Section | None) -> list[Row]:
    """Returns the rows of a device; without one, the step time that is long enough."""
    if device is None:
        return [("keeps busy", _keeps_busy(steady))]
    step, au = device["step_seconds"], device["au"]
    last_wait = device["last_wait_seconds"]
    stopped, before = "", ""
    if last_wait is not None:
        stopped = f"; it waited for the last {duration(last_wait)}"
        before = "before that: "
    rows: list[Row] = [("verdict", VERDICTS[device["verdict"]] + stopped)]
    if step is not None:
        bar = device["bar"]
        asked = ""
        if bar is not None:
            outcome = "reached" if au >= bar else "missed"
            asked = f"; MLPerf's bar of {bar:.0%} is {outcome}"
        rows += [
            (
                "utilisation (AU)",
                f"{before}{au:.1%} with steps of {duration(step)}"
                f"{'' if device['preset'] is None else ' (' + device['preset'] + ')'}"
                f"{asked}",
            ),
            (
                "starved",
                f"{before}{device['starved_time_share']:.1%} of the time, "
                f"{device['starved_steps_share']:.1%} of {number(device['steps'])} steps",
            ),
            (
                "overhead",
                f"{duration(device['overhead_seconds_per_step'])} of each step are the "
                "simulation's" + _free_source(device["free_source_au"]),
            ),
        ]
    if device["period_seconds"] is not None:
        rows.append(
            (
                "starves below",
                f"steps of {duration(device['period_seconds'])}, the pipeline's period",
            )
        )
    return [*rows, ("results", _results(device["results"])), ("knee", _knee(device))]


def _keeps_busy(steady: Section | None) -> str | None:
    """Returns the step time from which on the pipeline is not the bottleneck."""
    if steady is None:
        return None
    period = duration(1 / steady["elements_per_second"])
    return f"a device whose step takes {period} or longer; a faster one starves"


def _free_source(au: float | None) -> str:
    return "" if au is None else f"; a free source gets an AU of {au:.1%}"


def _results(section: Section | None) -> str | None:
    """Returns whether the host keeps up with the results."""
    if section is None:
        return None
    rate = number(section["produced_per_second"])
    given = f"{rate} results of {size(section['bytes'])} a second"
    most = f"at most {number(section['unread_most'])} were unread"
    blocked = f"the device was blocked {section['blocked_time_share']:.1%} of the time"
    if section["keeps_up"]:
        return f"{given}: the host keeps up, {most}"
    return f"{given}: the host falls behind, {most}, {blocked}"


def _knee(device: Section) -> str | None:
    """Returns the sweep in a line, and its deviation from an even pipeline."""
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


def link_rows(links: Section | None) -> list[Row]:
    """Returns the rows of the links."""
    if links is None:
        return []
    infeed, outfeed = links["infeed"], links["outfeed"]
    dataset, latency = links["dataset"], links["host"]["latency_ns"]
    slowest = SLOWEST[links["slowest"]]
    if links["slowest"] == "host" and outfeed["blocked_share"] < HARDLY:
        slowest = PILE_UP  # in the store behind the outfeed
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
