"""The result of a measurement, and its JSON."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from ipufeed.benchmark.result.json_text import json_text
from ipufeed.benchmark.result.sections import (
    CalibrationSection,
    ColdSection,
    DatasetSection,
    DeviceSection,
    EpochSection,
    ErrorSection,
    LatencySection,
    LinksSection,
    MachineSection,
    MemcpySection,
    ProcessesSection,
    QueueSection,
    ResourcesSection,
    ServiceSection,
    SettingsSection,
    StartupSection,
    SteadySection,
    WarningSection,
)
from ipufeed.render.files import write_whole
from ipufeed.render.terminal import printable
from ipufeed.render.text import short
from ipufeed.render.units import counted, number

# History: 1, the first one: epochs, dataset, settings, machine, startup, steady, latency,
# memcpy, resources, calibration, queue, warnings, error. Adding a key does not change the
# number; removing one, or changing what it means, does.
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What `ipufeed.benchmark.measure` found, as it stands in the JSON.

    docs/result.md has how to read each number. Times are seconds, `latency` is in
    nanoseconds, `bandwidth` in GB/s (1e9 bytes); counts are exact.

    Attributes:
        epochs: The classic list: elements_processed, total_bytes_processed,
            time_elapsed, elements_per_second, bandwidth.
        dataset: Name, structure, bytes per element, cardinality, samples per element.
        settings: What was asked for.
        machine: What it ran on, and what else was using it.
        startup: From asking for the iterator to the first element; None if none came.
        steady: The steady state, the rate to quote; None where there is none.
        latency: The time between elements: percentiles and a histogram; None for fewer
            than two.
        memcpy: What the copies took; None if they were switched off.
        resources: CPU, memory, threads.
        calibration: The cost of the harness; None if it was not measured.
        queue: Which side of the ring waited for the other.
        cold: Files that were dropped from the page cache (--cold), and what of them was
            still in it; else None.
        service: Through tf.data service: what each of its processes did; else None.
        processes: Of several processes at a time: the rate of each; else None.
        links: Through the device: what each link of the way did; else None.
        stages: Where the time goes, the most important first; None if it is not known.
        advice: What to change, and what that would give; None where `stages` is.
        what_if: Answers to `--what-if`; None if nothing was asked.
        series: The course of the run: columns with a row for each of up to 500 windows of
            time; None without an element.
        device: With a step time: how busy the device was kept; else None.
        warnings: What to know before quoting a number: a code and a sentence each.
        error: What the dataset failed with: type, message, element (from 0); or None.
        comparison: With --compare: what Comparison.to_dict() says; else None.
    """

    epochs: list[EpochSection]
    dataset: DatasetSection
    settings: SettingsSection
    machine: MachineSection
    startup: StartupSection | None
    steady: SteadySection | None
    latency: LatencySection | None
    memcpy: MemcpySection | None
    resources: ResourcesSection
    calibration: CalibrationSection | None
    queue: QueueSection
    links: LinksSection | None = None
    stages: list[dict[str, Any]] | None = None
    advice: list[dict[str, Any]] | None = None
    what_if: list[dict[str, Any]] | None = None
    series: dict[str, list[Any]] | None = None
    device: DeviceSection | None = None
    cold: ColdSection | None = None
    service: ServiceSection | None = None
    processes: ProcessesSection | None = None
    warnings: list[WarningSection] = field(default_factory=list)
    error: ErrorSection | None = None
    comparison: dict[str, Any] | None = None

    @property
    def elements(self) -> int:
        """Elements in all epochs."""
        return sum(int(epoch["elements_processed"]) for epoch in self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """The result as the JSON holds it."""
        return {"schema_version": SCHEMA_VERSION, **vars(self)}

    def to_json(self) -> str:
        """Strict JSON: a number that is not finite becomes null."""
        return json_text(self.to_dict())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON to `path`, whole or not at all.

        Raises:
            OSError: It cannot be written; what stood there before still does.
        """
        write_whole(os.fspath(path), (self.to_json() + "\n").encode())

    def __repr__(self) -> str:
        """One line: name, rate, and what is the matter, if anything is."""
        return one_line(self)

    def _repr_html_(self) -> str:
        """What Jupyter shows: the figures, and the rate over time."""
        from ipufeed.benchmark.report.notebook import notebook_html

        return notebook_html(self)


def one_line(result: Result) -> str:
    """<Result 'train.py:dataset': 69.09 elements/s ± 3.0 %, 693 elements, 1 warning>."""
    found = []
    steady = result.steady
    if steady is not None:
        rate = steady["elements_per_second"]
        text = f"{number(rate)} elements/s"
        if steady["interval"] is not None:
            low, high = steady["interval"]
            text += f" ± {(high - low) / 2 / rate:.1%}"
        found.append(text)
    found.append(counted(result.elements, "element"))
    if result.error is not None:
        found.append(f"failed with {result.error['type']}")
    if result.warnings:
        found.append(counted(len(result.warnings), "warning"))
    name = short(printable(str(result.dataset.get("name"))), 60)
    return f"<Result {name!r}: {', '.join(found)}>"
