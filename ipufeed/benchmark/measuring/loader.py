"""Measures a loader of another framework, by the same rules as a tf.data dataset.

A Python loop (ipufeed/benchmark/loaders/consumer.py) takes the place of the native op; the
rest is the same: epochs, steady state, interval, percentiles, fractions, warnings. CPU
times are those of this process and its child processes, since a loader's workers are some.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ipufeed.benchmark.loaders.calibration import calibrate, seconds_in_run
from ipufeed.benchmark.loaders.consume import consume
from ipufeed.benchmark.loaders.consumer import Consumer, Counts, Limits
from ipufeed.benchmark.loaders.rows import LEADING, Rows, rows_of
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.calibration import (
    CALIBRATION_S,
    INTERVAL_S,
    Calibration,
)
from ipufeed.benchmark.measuring.cpu_wait import RunQueueDelay
from ipufeed.benchmark.measuring.describe import SampleRule
from ipufeed.benchmark.measuring.machine import descendants_cpu_ns
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement
from ipufeed.benchmark.measuring.sections import (
    Conditions,
    OwnSections,
    assemble,
    conditions_since,
    memcpy_section,
    resources_section,
)
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import DatasetSection, WarningSection
from ipufeed.benchmark.result.settings import EPOCH_SECONDS, SettingError, Settings
from ipufeed.sources.loaders.failure import LoaderError
from ipufeed.sources.loaders.kinds import Kind
from ipufeed.sources.loaders.leaves import Element, leaves_of, spec_of
from ipufeed.sources.loaders.tables import is_table

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording


class _CpuTimes:
    """CPU time of the process tree from the first element on."""

    def __init__(self) -> None:
        self._below_ns = self._own_ns = self._wall_ns = 0

    def begin(self) -> None:
        """Starts the count, on the consumer's thread after the first element."""
        self._below_ns = descendants_cpu_ns()
        # Last, and first below: that function's own time does not count.
        self._own_ns, self._wall_ns = time.process_time_ns(), time.monotonic_ns()

    def since(self) -> tuple[int, int]:
        """Returns CPU and wall time in ns; zeros without an element."""
        if not self._wall_ns:
            return 0, 0
        own_ns = time.process_time_ns() - self._own_ns
        wall_ns = time.monotonic_ns() - self._wall_ns
        return own_ns + descendants_cpu_ns() - self._below_ns, wall_ns


def measure_loader(
    source: object,
    kind: Kind,
    settings: Settings,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
    on_raw: Callable[[RawMeasurement], None] | None = None,
) -> tuple[Result, BaseException | None]:
    """Measures how fast `source` delivers to a Python loop.

    The arguments are those of measure(); `on_raw` gets the counts. Returns the result,
    and the exception that interrupted the run, or None.

    Raises:
        ValueError: Several passes over a loader that can be read once, or a `recording`.
    """
    if recording is not None:
        raise SettingError(
            "{} shows the native threads that read a tf.data dataset, and this is a "
            f"{kind.name}. Leave it out: the course of the run is in `series`.",
            "trace",
        )
    if settings.passes not in (None, 1) and not kind.passes:
        raise SettingError(
            f"{{}} needs a loader that can be iterated again, and a {kind.name} is read "
            "once. Ask for one pass, or give an object whose __iter__ starts again.",
            "passes",
        )
    before = machine.Activity.now(descendants_cpu_ns() / 1e9)
    delay, cpu = RunQueueDelay(on_progress), _CpuTimes()

    def progress(counts: Counts) -> None:
        delay(
            Progress(
                counts.elements, counts.bytes, counts.finished_epochs, counts.first_ns
            )
        )

    rows = rows_of(kind)
    consumer, interruption = consume(
        kind.open, limits_of(settings), cpu.begin, progress, rows
    )
    cpu_ns, wall_ns = cpu.since()
    conditions = conditions_since(before, delay, descendants_cpu_ns() / 1e9)
    raw = _raw_measurement(consumer, cpu_ns, wall_ns, interruption is not None)
    if on_raw is not None:
        on_raw(raw)
    calibration = None
    later: list[WarningSection] = []
    if interruption is None and consumer.counts.elements > 1:
        progress(consumer.counts)
        try:
            calibration = _calibration_of(consumer, settings, rows)
        except KeyboardInterrupt as error:
            interruption = error
            later = [warn.interrupted_later("and the harness's own cost is not known.")]
    rule = rule_of(
        kind,
        seems_batched(
            consumer.counts.sample, rows, consumer.counts.same_leading_dimension
        ),
        settings.items_per_element,
        rows.where,
    )
    own = _own_sections(raw.counters, settings, conditions)
    described = _describe(source, kind, name, consumer.counts)
    result = assemble(raw, settings, described, rule, calibration, conditions, own)
    result = replace(result, warnings=[*later, *result.warnings])
    return result, interruption


def _own_sections(
    counters: dict[str, int], settings: Settings, conditions: Conditions
) -> OwnSections:
    return OwnSections(
        memcpy_section(counters) if settings.memcpy and counters["elements"] else None,
        {
            **resources_section(counters, conditions),
            "consumer_cpu_seconds": counters["consumer_cpu_ns"] / 1e9,
        },
    )


def limits_of(settings: Settings) -> Limits:
    """Returns the settings as bounds of the loop, and as attributes of the native op."""
    limit = settings.time_limit
    return Limits(
        epochs=settings.epochs or 0,
        elements_per_epoch=settings.elements or 0,
        epoch_ns=int(EPOCH_SECONDS * 1e9),
        seconds_ns=0 if limit is None else max(1, round(limit * 1e9)),
        passes=settings.passes or 1,
        epoch_per_pass=settings.passes is not None,
        copy=settings.memcpy,
    )


def _raw_measurement(
    consumer: Consumer, cpu_ns: int, wall_ns: int, stopped: bool
) -> RawMeasurement:
    """Returns the counts in the form of the native op (cc/measure/measurement.h)."""
    counts = consumer.counts
    names = (
        *("requested_ns", "created_ns", "first_ns", "steady_ns", "last_ns"),
        *("finished_ns", "elements", "bytes", "opaque", "copy_ns", "first_copy_ns"),
        *("starved_ns", "blocked_ns", "consumer_cpu_ns", "epochs_per_entry"),
    )
    counters = {name: int(getattr(counts, name)) for name in names}
    counters.update(
        cpu_ns=cpu_ns,
        cpu_wall_ns=wall_ns,
        capacity=0,
        ended=int(counts.ended),
        stopped=int(stopped),
        same_leading_dimension=int(counts.same_leading_dimension),
    )
    return RawMeasurement(
        counters,
        np.array(counts.epochs, np.int64).reshape(-1, 5),
        np.array(counts.stamps, np.int64),
        None if counts.failure is None else LoaderError(counts.failure),
        np.array(counts.marks, np.int64).reshape(-1, 7),
    )


def _calibration_of(
    consumer: Consumer, settings: Settings, rows: Rows
) -> Calibration | None:
    """Measures the cost of the Python loop: with such an element, for 0.3 s, or in the run.

    The larger one is the upper bound.
    """
    counts = consumer.counts
    cost = calibrate(counts.sample, settings.memcpy, CALIBRATION_S, INTERVAL_S, rows)
    if cost is None:
        return None
    seconds = max(cost.seconds, seconds_in_run(counts.marks) + cost.calling)
    return Calibration(counts.bytes // counts.elements, cost.elements, seconds)


def seems_batched(element: Element, rows: Rows, agrees: bool) -> bool:
    """Whether an element looks like a batch of a loader that does not show that it batches.

    Args:
        element: An element of the loader.
        rows: What has counted its samples.
        agrees: Whether all columns had the same number of samples.
    """
    # A nested tensor is an array of sequences, so that one alone is a batch.
    is_nested = getattr(element, "is_nested", False) is True
    return agrees and (
        rows.is_shown or is_nested or is_table(element) or len(leaves_of(element)) > 1
    )


def rule_of(
    kind: Kind,
    alike: bool,
    items_per_element: float | None,
    where: str = LEADING,
) -> SampleRule:
    """Returns the rule: the leading dimension if the loader batches, or seems to.

    Args:
        kind: The loader's kind.
        alike: Whether an element seems to be a batch.
        items_per_element: The user's setting, or None.
        where: What was counted, as text.
    """
    if items_per_element is not None:
        return SampleRule(items_per_element, "--items-per-element")
    if kind.batch is not None:
        how = f"it batches ({kind.batch})" if kind.batch else f"a {kind.name} batches"
        return SampleRule(None, f"{where}: {how}")
    if alike:
        same = (
            ""
            if where != LEADING
            else ", which is the same of all arrays of an element"
        )
        return SampleRule(
            None, f"{where}{same} (--items-per-element N if that is not a batch)"
        )
    return SampleRule(
        1,
        "a sample is an element: no sign that it is a batch (--items-per-element N "
        "if each holds N)",
    )


def _describe(
    source: object, kind: Kind, name: str | None, counts: Counts
) -> DatasetSection:
    return {
        "name": name or kind.name,
        "loader": kind.name,
        "element_spec": spec_of(counts.sample) if counts.elements else None,
        "cardinality": length_of(source),
        "autotune": False,
        "cache": False,
    }


def length_of(source: object) -> int | str:
    """Returns the elements of a pass, or `unknown`."""
    try:
        return operator.index(len(source))  # type: ignore[arg-type]  # TypeError
    except Exception:  # from its own __len__
        return "unknown"
