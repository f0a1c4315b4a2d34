"""Measures a loader of another framework, by the same rules as a tf.data dataset.

The elements come through a Python loop (ipufeed/benchmark/loaders/consumer.py) instead of
the native op; what follows is the same: epochs, steady state, interval, percentiles,
shares, warnings. CPU times are those of this process and of the processes that it has
started, since a loader's workers are some.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ipufeed.benchmark.loaders.consumer import (
    Consumer,
    Counts,
    Limits,
    calibrate,
    consume,
    place_of,
)
from ipufeed.benchmark.loaders.kinds import Kind
from ipufeed.benchmark.loaders.leaves import leaves_of, spec_of
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.calibration import (
    CALIBRATION_S,
    STRETCH_S,
    Calibration,
)
from ipufeed.benchmark.measuring.cpu_wait import Waiting
from ipufeed.benchmark.measuring.describe import SampleRule
from ipufeed.benchmark.measuring.process_tree import tree_cpu_ns
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

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording


class LoaderError(Exception):
    """What a loader ended with, in the form that TensorFlow's errors have.

    Attributes:
        kind: The name of the exception's class.
        message: Its text, and where the loader's own code raised it.
    """

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        self.message = f"{error}{place_of(error)}"
        super().__init__(self.message)


class CpuTimes:
    """CPU time of the process tree from the first element on."""

    def __init__(self) -> None:
        self._cpu_ns = self._wall_ns = 0

    def begin(self) -> None:
        """Behind the first element, on the consumer's thread."""
        self._cpu_ns, self._wall_ns = tree_cpu_ns(), time.monotonic_ns()

    def since(self) -> tuple[int, int]:
        """CPU and wall time in ns; zeros where there was no element."""
        if not self._wall_ns:
            return 0, 0
        return tree_cpu_ns() - self._cpu_ns, time.monotonic_ns() - self._wall_ns


def measure_loader(
    source: Any,
    kind: Kind,
    settings: Settings,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
) -> tuple[Result, BaseException | None]:
    """Measures how fast `source` delivers to a Python loop.

    Args:
        source: The loader.
        kind: Of it.
        settings: As for measure().
        name: As for measure().
        on_progress: As for measure().
        recording: Refused: a loader has no threads of ours.

    Returns:
        The result, and what interrupted it or None.

    Raises:
        ValueError: Several passes over what can be read once, or a `recording`.
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
    before = replace(machine.Activity.now(), process_s=tree_cpu_ns() / 1e9)
    waiting, cpu = Waiting(on_progress), CpuTimes()

    def progress(counts: Counts) -> None:
        waiting(
            Progress(
                counts.elements, counts.bytes, counts.finished_epochs, counts.first_ns
            )
        )

    consumer, interruption = consume(
        kind.open, limits_of(settings), cpu.begin, progress
    )
    cpu_ns, wall_ns = cpu.since()
    # The tree's time is the process' own here, and the rest is that of others.
    conditions = replace(
        conditions_since(before, waiting),
        others=replace(
            machine.Activity.now(), process_s=tree_cpu_ns() / 1e9
        ).others_since(before),
    )
    raw = as_raw(consumer, cpu_ns, wall_ns, interruption is not None)
    calibration = None
    later: list[WarningSection] = []
    if interruption is None and consumer.counts.elements > 1:
        progress(consumer.counts)
        try:
            calibration = calibration_of(consumer, settings)
        except KeyboardInterrupt as error:
            interruption = error
            later = [warn.interrupted_later("and the harness's own cost is not known.")]
    alike = (
        consumer.counts.same_leading_dimension
        and len(leaves_of(consumer.counts.sample)) > 1
    )
    rule = rule_of(kind, alike, settings.items_per_element)
    own = own_sections(raw.counters, settings, conditions)
    described = describe(source, kind, name, consumer.counts)
    result = assemble(raw, settings, described, rule, calibration, conditions, own)
    result = replace(result, warnings=[*later, *result.warnings])
    return result, interruption


def own_sections(
    counters: dict[str, int], settings: Settings, conditions: Conditions
) -> OwnSections:
    """Of a loop that copies by itself and has no feeder."""
    return OwnSections(
        memcpy_section(counters) if settings.memcpy and counters["elements"] else None,
        {
            **resources_section(counters, conditions),
            "consumer_cpu_seconds": counters["consumer_cpu_ns"] / 1e9,
        },
    )


def limits_of(settings: Settings) -> Limits:
    """As measure.op_attributes for the native op."""
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


def as_raw(
    consumer: Consumer, cpu_ns: int, wall_ns: int, stopped: bool
) -> RawMeasurement:
    """The counts in the form that the native op gives (cc/measure/measurement.h)."""
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
        feeder_cpu_ns=0,
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


def calibration_of(consumer: Consumer, settings: Settings) -> Calibration | None:
    """What the Python loop takes for such an element, for 0.3 s."""
    counts = consumer.counts
    found = calibrate(counts.sample, settings.memcpy, CALIBRATION_S, STRETCH_S)
    if found is None:
        return None
    elements, seconds = found
    return Calibration(counts.bytes // counts.elements, elements, seconds)


def rule_of(kind: Kind, alike: bool, items_per_element: float | None) -> SampleRule:
    """Samples are the leading dimension where the loader batches, or seems to.

    Args:
        kind: Of the loader.
        alike: Whether an element has several arrays, all of one leading dimension.
        items_per_element: As the user set it.
    """
    if items_per_element is not None:
        return SampleRule(items_per_element, "--items-per-element")
    if kind.batch is not None:
        how = f"it batches ({kind.batch})" if kind.batch else f"a {kind.name} batches"
        return SampleRule(None, f"the leading dimension: {how}")
    if kind.name == "torch DataLoader":
        return SampleRule(1, "a sample is an element: batch_size is None")
    if alike:
        return SampleRule(
            None,
            "the leading dimension, which is the same of all arrays of an element "
            "(--items-per-element N if that is not a batch)",
        )
    return SampleRule(
        1,
        "a sample is an element: no sign that it is a batch (--items-per-element N "
        "if each holds N)",
    )


def describe(
    source: Any, kind: Kind, name: str | None, counts: Counts
) -> DatasetSection:
    """The result's section on the loader; its structure is that of the last element."""
    return {
        "name": name or kind.name,
        "loader": kind.name,
        "element_spec": spec_of(counts.sample) if counts.elements else None,
        "cardinality": length_of(source),
        "autotune": False,
        "cache": False,
    }


def length_of(source: Any) -> int | str:
    """Elements of a pass, where the loader has a length."""
    try:
        return operator.index(len(source))
    except Exception:  # whatever its own __len__ raises
        return "unknown"
