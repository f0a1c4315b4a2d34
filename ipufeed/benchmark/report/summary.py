"""The summary of a result: a screen of text on stderr."""

from __future__ import annotations

import sys

from ipufeed.benchmark.report.failure import sentence_of
from ipufeed.benchmark.report.protocols import Result, Row, Section
from ipufeed.benchmark.report.summary_device import device_rows, link_rows
from ipufeed.benchmark.report.summary_modes import cold_rows, process_rows, service_rows
from ipufeed.benchmark.report.summary_stages import stage_lines
from ipufeed.render.terminal import paragraph, wrap
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import counted, duration, number, size


def summarize(result: Result, why_no_stages: str | None = None) -> str:
    """Returns the lines for stderr, as wide as its terminal.

    Args:
        result: The result.
        why_no_stages: Text in place of stages that were not measured.
    """
    lines = [f"{printable(result.dataset['name'])}"]
    lines += _lines_of(
        [
            ("rate", rate(result)),
            ("95 % interval", interval(result.steady)),
            ("bandwidth", bandwidth(result)),
            ("start-up", startup(result)),
            ("left out", _left_out(result.steady)),
            ("between elements", latency(result.latency)),
            *device_rows(result.device, result.steady),
            *link_rows(result.links),
            *cold_rows(result.cold),
            *service_rows(result.service),
            *process_rows(result.processes),
            ("copy", _memcpy(result)),
            ("CPU", _cpu(result)),
            ("harness", _calibration(result.calibration)),
            ("passes", _passes(result)),
            ("measured", amount(result)),
            ("stages", why_no_stages),
        ]
    )
    lines += stage_lines(result)
    for warning in result.warnings:
        lines += wrap("warning: " + warning["message"])
    if result.error is not None:
        lines += wrap(
            f"error: the dataset failed at element {result.error['element']} (from 0) "
            f"with {result.error['type']}:"
        )
        for line in sentence_of(result.error).splitlines():
            lines += wrap(line, indent="  ")
    return "\n".join(lines)


def _lines_of(rows: list[Row]) -> list[str]:
    lines = []
    for label, value in rows:
        if value is None:
            continue
        lines += paragraph(value, sys.stderr, f"  {label:<17} ", " " * 20)
    return lines


def rate(result: Result) -> str:
    """Returns the steady rate in samples and elements."""
    steady = result.steady
    if steady is None:
        return {
            0: "none: there was no element",
            1: "none: one element has no rate",
        }.get(result.elements, "none: no time between the elements")
    elements = f"{number(steady['elements_per_second'])} elements/s"
    samples = result.dataset["samples_per_element"]
    if samples is None or samples == 1:
        return elements
    return (
        f"{number(steady['samples_per_second'])} samples/s = {elements} "
        f"of {number(samples)} samples"
    )


def interval(steady: Section | None) -> str | None:
    """Returns the 95 % interval, in elements per second."""
    if steady is None or steady["interval"] is None:
        return None
    low, high = steady["interval"]
    half = (high - low) / 2 / steady["elements_per_second"]
    return f"{number(low)} to {number(high)} elements/s (± {half:.1%})"


def bandwidth(result: Result) -> str | None:
    """Returns bytes per second, and the bytes of an element."""
    if result.steady is None:
        return None
    bandwidth, each = result.steady["bandwidth"], result.dataset["bytes_per_element"]
    if bandwidth is None or each is None:
        return "unknown: the elements' size cannot be determined (opaque components)"
    return f"{size(bandwidth * 1e9)}/s, {size(each)} per element"


def startup(result: Result) -> str | None:
    """Returns the time until the first element."""
    if result.startup is None:
        return None
    return f"{duration(result.startup['seconds'])} until the first element"


def _left_out(steady: Section | None) -> str | None:
    """Returns what the rate leaves out, apart from the start-up."""
    if steady is None or not steady["left_out"]:
        return None
    return "; ".join(
        f"{part['what']} ({duration(part['seconds'])}, "
        f"{counted(part['elements'], 'element')}): "
        f"{part['why']}"
        for part in steady["left_out"]
    )


def latency(percentiles: Section | None) -> str | None:
    """Returns p50, p99 and the maximum."""
    if percentiles is None:
        return None
    return ", ".join(
        f"{name} {duration(percentiles[name] / 1e9)}" for name in ("p50", "p99", "max")
    )


def _memcpy(result: Result) -> str | None:
    """Returns the time of the copy, and its fraction of the time."""
    if result.memcpy is None or result.steady is None:
        return None
    each, part = result.memcpy["seconds_per_element"], result.memcpy["share"]
    return f"{duration(each)} per element, {part:.1%} of the time"


def _cpu(result: Result) -> str | None:
    each, busy = (
        result.resources[key] for key in ("cpu_seconds_per_element", "cpus_busy")
    )
    if each is None or busy is None or result.steady is None:
        return None
    return (
        f"{duration(each)} per element, {busy:.2f} of "
        f"{result.machine['usable_cpus']} CPUs busy"
    )


def _calibration(null: Section | None) -> str | None:
    """Returns the cost of measuring."""
    if null is None:
        return None
    return (
        f"at most {duration(null['seconds_per_element'])} per element: a null pipeline "
        f"gives {number(null['ceiling_elements_per_second'])} elements/s"
    )


def _passes(result: Result) -> str | None:
    """Returns the rate of each pass, if there were several."""
    if result.steady is None or not result.steady["pass_rates"]:
        return None
    rates = [number(rate) for rate in result.steady["pass_rates"]]
    shown = rates if len(rates) <= 4 else [*rates[:3], "...", rates[-1]]
    return f"{', '.join(shown)} elements/s"


def amount(result: Result) -> str:
    """Returns the numbers of elements and epochs."""
    elements = counted(result.elements, "element")
    each = result.settings["epochs_per_entry"]
    if each > 1:
        entries = counted(len(result.epochs), "entry", "entries")
        return f"{elements} in {entries} of {each} epochs"
    return f"{elements} in {counted(len(result.epochs), 'epoch')}"
