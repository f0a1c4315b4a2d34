"""The result of a measurement, and its JSON."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ipufeed.benchmark.result.json_text import JsonObject, json_text
from ipufeed.benchmark.result.sections import (
    AdviceSection,
    CalibrationSection,
    ColdSection,
    ComparisonSection,
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
    SeriesSection,
    ServiceSection,
    SettingsSection,
    StageSection,
    StartupSection,
    SteadySection,
    WarningSection,
    WhatIfSection,
)
from ipufeed.render.files import write_whole
from ipufeed.render.terminal_text import printable
from ipufeed.render.text import short
from ipufeed.render.units import counted, number

# History: 1, the first one: epochs, dataset, settings, machine, startup, steady, latency,
# memcpy, resources, calibration, queue, warnings, error. Adding a key does not change the
# number; removing one, or changing what it means, does.
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The result of `ipufeed.benchmark.measure`: the sections of the JSON.

    docs/result.md explains how to read each number. Times are seconds, `latency` is in
    nanoseconds, `bandwidth` in GB/s (1e9 bytes); counts are exact.

    Attributes:
        epochs: The classic list: elements_processed, total_bytes_processed,
            time_elapsed, elements_per_second, bandwidth.
        dataset: Name, structure, bytes per element, cardinality, samples per element.
        settings: The bounds and options of the measurement.
        machine: Hardware, versions, and the CPU use of other processes.
        startup: Time from the request for the iterator to the first element; None without
            an element.
        steady: The steady state, the rate to quote; None if the run has none.
        latency: Time between elements: percentiles and a histogram; None for fewer than
            two elements.
        memcpy: Time and bandwidth of the copies; None if they were switched off.
        resources: CPU, memory, threads.
        calibration: The cost of the harness; None if it was not measured.
        queue: The fractions of the run in which the ring's reader and writer waited.
        cold: Files that were dropped from the page cache (--cold), and the bytes that
            stayed in it; else None.
        service: Figures of each process of tf.data service (--service); else None.
        processes: The rate of each process (--processes); else None.
        links: Figures of each link of the path (--through device); else None.
        stages: Where the time goes, the most important first; None if it is not known.
        advice: Changes and their predicted gain; None where `stages` is.
        what_if: Predictions for `--what-if`; None without it.
        series: The run over time: columns with a row for each of up to 500 windows; None
            without an element.
        device: With a step time: how busy the device was kept; else None.
        warnings: What to know before quoting a number: a code and a sentence each.
        error: The dataset's failure: type, message, element (from 0); or None.
        comparison: With --compare: Comparison.to_dict(); else None.
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
    stages: list[StageSection] | None = None
    advice: list[AdviceSection] | None = None
    what_if: list[WhatIfSection] | None = None
    series: SeriesSection | None = None
    device: DeviceSection | None = None
    cold: ColdSection | None = None
    service: ServiceSection | None = None
    processes: ProcessesSection | None = None
    warnings: list[WarningSection] = field(default_factory=list)
    error: ErrorSection | None = None
    comparison: ComparisonSection | None = None

    @property
    def elements(self) -> int:
        """Elements in all epochs."""
        return sum(int(epoch["elements_processed"]) for epoch in self.epochs)

    def to_dict(self) -> JsonObject:
        """Returns the result with the keys of the JSON."""
        return {"schema_version": SCHEMA_VERSION, **vars(self)}

    def to_json(self) -> str:
        """Returns strict JSON: a number that is not finite becomes null."""
        return json_text(self.to_dict())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON to `path`, whole or not at all.

        Raises:
            OSError: It cannot be written; an existing file is unchanged.
        """
        write_whole(os.fspath(path), (self.to_json() + "\n").encode())

    def __repr__(self) -> str:
        """<Result 'a.py:dataset': 69.09 elements/s ± 3.0 %, 693 elements, 1 warning>."""
        found = []
        if self.steady is not None:
            rate = self.steady["elements_per_second"]
            text = f"{number(rate)} elements/s"
            if self.steady["interval"] is not None:
                low, high = self.steady["interval"]
                text += f" ± {(high - low) / 2 / rate:.1%}"
            found.append(text)
        found.append(counted(self.elements, "element"))
        if self.error is not None:
            found.append(f"failed with {self.error['type']}")
        if self.warnings:
            found.append(counted(len(self.warnings), "warning"))
        name = short(printable(str(self.dataset.get("name"))), 60)
        return f"<Result {name!r}: {', '.join(found)}>"

    def _repr_html_(self) -> str:
        """Returns what Jupyter shows: the figures, and the rate over time."""
        from ipufeed.benchmark.report.notebook import notebook_html

        return notebook_html(self)
