"""Makes the sections of a result from the counters and stamps of the native op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.calibration import Calibration
from ipufeed.benchmark.measuring.cpu_wait import RunQueueDelay
from ipufeed.benchmark.measuring.describe import SampleRule
from ipufeed.benchmark.measuring.histogram import histogram
from ipufeed.benchmark.measuring.machine import usable_cpus
from ipufeed.benchmark.measuring.run import RawMeasurement
from ipufeed.benchmark.measuring.series import Parts, series_section
from ipufeed.benchmark.measuring.steady_state import Steady, find_steady, why_left_out
from ipufeed.benchmark.result import sections as types
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.settings import EPOCH_SECONDS, Settings


@dataclass(frozen=True)
class Conditions:
    """The machine's load while the dataset ran.

    Attributes:
        load_average: Over the minute before; None if the system does not report it.
        others: CPUs that other processes kept busy.
        threads_waiting: Mean number of threads without a CPU (cpu_wait.py).
        peak_rss_bytes: This process's peak memory so far.
    """

    load_average: float | None
    others: float | None
    threads_waiting: float | None
    peak_rss_bytes: int


@dataclass(frozen=True)
class OwnSections:
    """Sections that depend on the way a dataset is run.

    Attributes:
        memcpy: The time of the copies; None if nothing was copied, or a copy is part of
            another figure.
        resources: CPU, memory and threads.
    """

    memcpy: types.MemcpySection | None
    resources: types.ResourcesSection


def conditions_since(
    before: machine.Activity, delay: RunQueueDelay, helpers_s: float = 0.0
) -> Conditions:
    """Reads the machine's counters at the end of a run; `helpers_s`: see Activity.now."""
    return Conditions(
        before.load_average,
        machine.Activity.now(helpers_s).others_since(before),
        delay.threads,
        machine.peak_rss_bytes(),
    )


def assemble(
    raw: RawMeasurement,
    settings: Settings,
    described: types.DatasetSection,
    rule: SampleRule,
    calibration: Calibration | None,
    conditions: Conditions,
    own: OwnSections,
) -> Result:
    """Makes the result from the counts of a run."""
    counters = raw.counters
    elements = counters["elements"]
    can_drain = bool(counters["ended"]) and len(raw.stamps) == elements
    last_pass = elements - int(raw.epochs[-1, 0]) if settings.passes and elements else 0
    steady = find_steady(raw.stamps, can_drain, last_pass)
    passes = _pass_rates(raw) if settings.passes else None
    epochs = [_classic_epoch(*row) for row in raw.epochs.tolist()]
    samples = samples_per_element(raw, rule)
    mean_bytes = bytes_per_element(counters)
    # Both sides' waits are counted from the first element until the consumer has finished.
    waiting = (counters["finished_ns"] - counters["steady_ns"]) / 1e9
    facts = warn.Facts(
        raw=raw,
        settings=settings,
        steady=steady,
        pass_rates=passes,
        samples=samples,
        calibration=calibration,
        others=conditions.others,
        usable_cpus=usable_cpus(),
        length=described["cardinality"],
        loader=described.get("loader") is not None,
    )
    return Result(
        epochs=epochs,
        dataset={
            **described,
            "bytes_per_element": mean_bytes,
            "samples_per_element": samples,
            "samples_rule": rule.why,
        },
        settings=_settings_section(settings, counters),
        machine={
            **machine.fingerprint(),
            "load_average": conditions.load_average,
            "cpus_used_by_others": conditions.others,
        },
        startup=_startup(counters) if elements else None,
        steady=_steady_section(
            steady,
            samples,
            mean_bytes,
            passes,
            bool(described["autotune"]),
            bool(described["cache"]),
            warn.busy_machine(facts) is not None,
        ),
        latency=latency(raw.stamps),
        memcpy=own.memcpy,
        resources=own.resources,
        calibration=_calibration_section(calibration),
        queue={
            "capacity": counters["capacity"],
            "starved_share": _fraction(counters["starved_ns"], waiting),
            "blocked_share": _fraction(counters["blocked_ns"], waiting),
        },
        series=series_section(raw.marks, parts_of(raw, steady)),
        warnings=warn.warnings(facts),
        error=_error_section(raw),
    )


def _settings_section(
    settings: Settings, counters: dict[str, int]
) -> types.SettingsSection:
    is_timed = not (settings.elements or settings.passes)
    return {
        "epochs": settings.epochs,
        "elements": settings.elements,
        "seconds": settings.time_limit,
        "passes": settings.passes,
        "memcpy": settings.memcpy,
        "items_per_element": settings.items_per_element,
        "epoch_seconds": EPOCH_SECONDS if is_timed else None,
        "epochs_per_entry": counters["epochs_per_entry"],
    }


def sections_of_op(
    counters: dict[str, int], settings: Settings, conditions: Conditions
) -> OwnSections:
    """Returns those of the measuring op, whose two threads count CPU time and copies."""
    is_copied = settings.memcpy and counters["elements"]
    return OwnSections(
        memcpy_section(counters) if is_copied else None,
        {
            **resources_section(counters, conditions),
            "feeder_cpu_seconds": counters["feeder_cpu_ns"] / 1e9,
            "consumer_cpu_seconds": counters["consumer_cpu_ns"] / 1e9,
        },
    )


def resources_section(
    counters: dict[str, int], conditions: Conditions
) -> types.ResourcesSection:
    """Returns CPU, memory and threads of this process."""
    seconds, elements = counters["cpu_ns"] / 1e9, counters["elements"]
    return {
        "cpu_seconds": seconds,
        "cpu_seconds_per_element": seconds / (elements - 1) if elements > 1 else None,
        "cpus_busy": _cpus_busy(counters, usable_cpus()),
        "threads_waiting": conditions.threads_waiting,
        "peak_rss_bytes": conditions.peak_rss_bytes,
        "threads": machine.threads(),
    }


def parts_of(raw: RawMeasurement, steady: Steady | None) -> Parts:
    """Returns the boundaries of start-up, fill, steady state and drain."""
    counters = raw.counters
    drained = steady is not None and any(p.what == "drain" for p in steady.left_out)
    return Parts(
        requested_ns=counters["requested_ns"],
        first_ns=counters["first_ns"],
        steady_ns=int(raw.stamps[steady.first]) if steady else counters["first_ns"],
        drain_ns=int(raw.stamps[steady.last]) if steady and drained else None,
        last_ns=counters["last_ns"],
        longest_ns=max(
            counters["first_ns"] - counters["requested_ns"],
            int(np.diff(raw.stamps).max(initial=0)),
        ),
        ended=bool(counters["ended"]) or raw.failure is not None,
    )


def _classic_epoch(
    elements: int, total_bytes: int, samples: int, start_ns: int, end_ns: int
) -> types.EpochSection:
    del samples
    seconds = max(1, end_ns - start_ns) / 1e9
    return {
        "elements_processed": elements,
        "total_bytes_processed": total_bytes,
        "time_elapsed": seconds,
        "elements_per_second": elements / seconds,
        "bandwidth": total_bytes / seconds / 1e9,
    }


def samples_per_element(raw: RawMeasurement, rule: SampleRule) -> float | None:
    """Returns the mean samples of an element; None if its components differ in them."""
    if rule.per_element is not None:
        return rule.per_element
    elements = raw.counters["elements"]
    if not elements or not raw.counters["same_leading_dimension"]:
        return None
    return float(raw.epochs[:, 2].sum()) / elements


def bytes_per_element(counters: dict[str, int]) -> float | None:
    """Returns the mean; None if the elements hold opaque components alone."""
    if not counters["elements"] or (counters["opaque"] and not counters["bytes"]):
        return None
    return counters["bytes"] / counters["elements"]


def _startup(counters: dict[str, int]) -> types.StartupSection:
    return {
        "requested_at": machine.at_time(counters["requested_ns"]),
        "seconds": (counters["first_ns"] - counters["requested_ns"]) / 1e9,
        "create_iterator_seconds": (counters["created_ns"] - counters["requested_ns"])
        / 1e9,
    }


def _steady_section(
    steady: Steady | None,
    samples: float | None,
    mean_bytes: float | None,
    passes: list[float] | None,
    autotune: bool,
    cache: bool,
    busy: bool,
) -> types.SteadySection | None:
    if steady is None:
        return None
    return {
        "elements": steady.elements,
        "seconds": steady.seconds,
        "elements_per_second": steady.rate,
        "samples_per_second": None if samples is None else steady.rate * samples,
        "bandwidth": None if mean_bytes is None else steady.rate * mean_bytes / 1e9,
        "interval": steady.interval,
        "pass_rates": passes,
        "left_out": [
            {
                "what": part.what,
                "seconds": part.seconds,
                "elements": part.elements,
                "ratio": part.ratio,
                "why": why_left_out(part, autotune, cache, busy),
            }
            for part in steady.left_out
        ],
        "windows": {
            "elements": [elements for elements, _ in steady.windows],
            "seconds": [seconds for _, seconds in steady.windows],
        },
    }


def _pass_rates(raw: RawMeasurement) -> list[float] | None:
    """Elements per second of each pass, the first one without the start-up.

    None if an epoch is not one pass, or a pass has fewer than two elements.
    """
    if len(raw.epochs) < 2 or raw.counters["epochs_per_entry"] > 1:
        return None
    counts = raw.epochs[:, 0].astype(float)
    starts, ends = raw.epochs[:, 3].copy(), raw.epochs[:, 4]
    counts[0] -= 1
    starts[0] = raw.counters["first_ns"]
    if counts.min() < 1 or (ends <= starts).any():
        return None
    return [float(rate) for rate in counts / ((ends - starts) / 1e9)]


def latency(stamps: NDArray[np.int64]) -> types.LatencySection | None:
    """Returns percentiles and histogram of the times between stamps, in ns."""
    if len(stamps) < 2:
        return None
    gaps = np.diff(stamps)
    p50, p90, p99 = np.percentile(gaps, [50, 90, 99])
    return {
        "gaps": len(gaps),
        "mean": float(gaps.mean()),
        "p50": float(p50),
        "p90": float(p90),
        "p99": float(p99),
        "max": int(gaps.max()),
        "histogram": histogram(gaps),
    }


def _elapsed(counters: dict[str, int]) -> float:
    return (counters["last_ns"] - counters["first_ns"]) / 1e9


def _cpus_busy(counters: dict[str, int], usable: int) -> float | None:
    """Mean number of CPUs that this process kept busy from the first element on.

    Close to `usable`: CPU-bound. At most `usable`: a CPU quota can be exceeded briefly.
    """
    if counters["cpu_wall_ns"] <= 0:
        return None
    return min(float(usable), counters["cpu_ns"] / counters["cpu_wall_ns"])


def memcpy_section(counters: dict[str, int]) -> types.MemcpySection:
    """Returns the time of the copies, which is part of every other figure of the result."""
    seconds = counters["copy_ns"] / 1e9
    # The first copy belongs to the start-up; the run begins after it.
    copied = (counters["copy_ns"] - counters["first_copy_ns"]) / 1e9
    return {
        "seconds": seconds,
        "seconds_per_element": seconds / counters["elements"],
        "share": copied / run if (run := _elapsed(counters)) > 0 else None,
        "bandwidth": None
        if bytes_per_element(counters) is None
        else counters["bytes"] / max(seconds, 1e-9) / 1e9,
    }


def _calibration_section(
    calibration: Calibration | None,
) -> types.CalibrationSection | None:
    if calibration is None:
        return None
    return {
        "bytes_per_element": calibration.bytes_per_element,
        "elements": calibration.elements,
        "seconds_per_element": calibration.seconds_per_element,
        "ceiling_elements_per_second": calibration.ceiling,
    }


def _fraction(part_ns: int, seconds: float) -> float:
    return min(1.0, part_ns / 1e9 / seconds) if seconds > 0 else 0.0


def _error_section(raw: RawMeasurement) -> types.ErrorSection | None:
    if raw.failure is None:
        return None
    failure: Any = raw.failure  # an OpError of TensorFlow, which has no types
    return {
        "type": getattr(failure, "kind", type(failure).__name__),  # of a LoaderError
        "message": failure.message,
        "element": raw.counters["elements"],
    }
