"""Measures a dataset on its whole path through the device, and each link of that path.

    dataset --> infeed --> loop on the device --> outfeed --> host
    alone       starved,   its own time           blocked     latency
                blocked

The rate is that of the loop, in dequeued elements. `Result.links` has the waits of each
link during the run (links.py). Then the dataset is measured alone, for a short time, and
last a null pipeline on the same path: the largest rate of this path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import tensorflow as tf

from ipufeed.benchmark.device.feed_check import check_feedable
from ipufeed.benchmark.device.free_source import measure_free_source
from ipufeed.benchmark.device.knee import sweep_knee
from ipufeed.benchmark.device.links import links_section, waits
from ipufeed.benchmark.device.run import (
    DeviceRun,
    element_size,
    results_depth,
    run_on_device,
)
from ipufeed.benchmark.device.section import DeviceFacts, device_section
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.warnings import device_warnings, text_warnings
from ipufeed.benchmark.loaders.extents import Extents
from ipufeed.benchmark.loaders.garbage import without_older_objects
from ipufeed.benchmark.loaders.rows import rows_of
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring.calibration import (
    CALIBRATION_S,
    Calibration,
    null_pipeline,
)
from ipufeed.benchmark.measuring.cpu_wait import RunQueueDelay
from ipufeed.benchmark.measuring.describe import (
    SampleRule,
    describe_dataset,
    sample_rule,
)
from ipufeed.benchmark.measuring.loader import length_of, rule_of, seems_batched
from ipufeed.benchmark.measuring.measure import (
    check_arguments,
    check_ends,
    check_reporting,
    op_attributes,
    raise_interruption,
)
from ipufeed.benchmark.measuring.recording import Recording
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement, run_measurement
from ipufeed.benchmark.measuring.sections import (
    OwnSections,
    assemble,
    conditions_since,
    resources_section,
)
from ipufeed.benchmark.measuring.steady_state import Steady, find_steady
from ipufeed.benchmark.measuring.warnings import interrupted_later
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import (
    DatasetSection,
    SettingsSection,
)
from ipufeed.benchmark.result.settings import Settings
from ipufeed.queues.hooks import device_hooks
from ipufeed.sources.loaders.as_dataset import Reading, as_dataset, first_of
from ipufeed.sources.loaders.failure import LoaderError
from ipufeed.sources.loaders.kinds import Kind, as_loader, kind_of
from ipufeed.sources.loaders.leaves import Element
from ipufeed.tf_types import Dataset

# The longest measurement of the dataset alone, for comparison.
ALONE_S = 3.0
# The device queue's prefix of the dataset's own message.
PREFIX = re.compile(
    r".*?An infeed dataset iterator has failed: element \d+ \(from 0\) of infeed queue "
    r"'[^']*': ",
    re.DOTALL,
)


def measure_through(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
    device: DeviceSettings | None = None,
) -> Result:
    """Measures how fast `dataset` gets through infeed, device and outfeed.

    Args:
        dataset: A tf.data.Dataset whose elements an infeed carries: dense tensors of
            int32, float32, float16, bool, int8 or uint8, each of fixed shape. Or a loader
            of another framework, whose arrays tf.data reads (as_dataset.py).
        settings: The bounds of the measurement. Default: about ten seconds, and then
            three for the dataset alone.
        name: The name in the result. Default: the dataset's class.
        on_progress: Called about twenty times a second, on the calling thread.
        recording: Records feeder, program and host for a trace. Default: none.
        device: The device and its step. Default: a step only takes the element.

    Returns:
        The result, with `links`, and with `device` if that was given. Its `memcpy` is
        None: the copy into the program is a part of the device's time.

    Raises:
        TypeError: `dataset` is neither a tf.data.Dataset nor a loader.
        ValueError: The elements cannot be fed (the message names the remedy), the dataset
            was not built in eager mode, or the settings do not apply.
        tf.errors.OpError: The dataset could not be started.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with the result so far.

    Threads: any, one measurement at a time: it uses IPU 0.
    """
    check_reporting(name, on_progress, recording)
    settings, source = Settings() if settings is None else settings, dataset
    dataset, loader, rule, reading = _feedable(source, settings)
    described = _described(dataset, name, source, loader)
    check_ends(settings, described)
    before = machine.Activity.now()
    without = without_older_objects(loader is not None)
    with _attaching_quietly(), recording or contextlib.nullcontext(), without:
        waiting = RunQueueDelay(on_progress)
        found, interruption = run_on_device(dataset, settings, waiting, device)
    conditions = conditions_since(before, waiting)
    run = _completed_run(found, interruption)
    raw = _complete_counts(run, dataset, reading.failure)
    if recording is not None:
        recording.requested_ns = raw.counters["requested_ns"]
    compared, calibration = Comparisons(), None
    others = text_warnings(reading.texts)
    if interruption is None and run.elements:
        size = raw.counters["bytes"] // run.elements
        try:
            if run.failure is None:
                compared.alone = measure_alone(dataset, settings)
            calibration = _calibrate_device(size)
            if device is not None:
                facts = _device_facts(run, device, raw, compared.alone)
                compared.facts = _with_comparisons(facts, dataset, size)
        except KeyboardInterrupt as error:
            interruption = error
            others.insert(0, interrupted_later(_not_finished(device)))
    # The copy into the program is a part of the device's time.
    own = OwnSections(None, resources_section(raw.counters, conditions))
    result = assemble(raw, settings, described, rule, calibration, conditions, own)
    if device is not None and run.elements:
        facts = compared.facts or _device_facts(run, device, raw, compared.alone)
        samples = result.dataset["samples_per_element"]
        compared.facts = dataclasses.replace(
            facts,
            samples=samples,
            interrupted=interruption is not None,
            loader_seconds=reading.seconds_each,
        )
    result = _with_links(result, run, device, compared)
    result = dataclasses.replace(result, warnings=[*others, *result.warnings])
    raise_interruption(interruption, result)
    return result


def _feedable(
    dataset: Dataset, settings: Settings
) -> tuple[Dataset, Kind | None, SampleRule, Reading]:
    """Returns a checked dataset, the kind of the loader that it reads, or None.

    And the rule for samples, and what will be known of the loader.
    """
    reading = Reading()
    loader = kind_of(as_loader(dataset))
    first: Element = None
    if loader is not None:
        first = first_of(loader)
        dataset = as_dataset(loader, first, reading)
    check_arguments(dataset, settings)
    _check_mode(dataset, settings)
    check_feedable(dataset.element_spec)
    if loader is None:
        rule = sample_rule(dataset, settings.items_per_element)
    else:
        rule = _rule_for(loader, first, settings)
    return dataset, loader, rule, reading


def _described(
    dataset: Dataset, name: str | None, source: object, loader: Kind | None
) -> DatasetSection:
    """Returns the description of a dataset, with the length of the loader that it reads."""
    described = describe_dataset(dataset, name, loader)
    if loader is not None:
        described["cardinality"] = length_of(source)
    return described


def _completed_run(
    found: DeviceRun | None, interruption: BaseException | None
) -> DeviceRun:
    """Returns the run; raises an interruption that came before its first result."""
    if found is None:
        raise_interruption(interruption, None)
        raise AssertionError("a run without a result was interrupted")
    return found


def _rule_for(loader: Kind, first: Element, settings: Settings) -> SampleRule:
    """Returns the rule for samples of a loader, by its first element.

    Not by the structure that tf.data has of it, which is without lists and graphs.
    """
    rows = rows_of(loader)
    extents = Extents(rows)
    _, samples = extents.of(first)  # all elements are of its shapes
    agrees = extents.same_leading_dimension
    alike = seems_batched(first, rows, agrees)
    rule = rule_of(loader, alike, settings.items_per_element, rows.where)
    if rule.per_element is None and agrees:
        rule = dataclasses.replace(rule, per_element=samples)
    return rule


@dataclasses.dataclass
class Comparisons:
    """The comparisons of a run through the device that were measured.

    Attributes:
        alone: The steady state of the dataset without a device.
        facts: The facts of a device with settings.
    """

    alone: Steady | None = None
    facts: DeviceFacts | None = None


def _with_links(
    result: Result,
    run: DeviceRun,
    device: DeviceSettings | None,
    compared: Comparisons,
) -> Result:
    """Returns the result with `links` and `device`."""
    facts, alone = compared.facts, compared.alone
    section = None if facts is None else device_section(facts)
    links = links_section(run, alone, section) if run.elements else None
    settings: SettingsSection = {**result.settings, "through": "device"}
    if device is not None:
        settings.update(cast(SettingsSection, dataclasses.asdict(device)))
    return dataclasses.replace(
        result,
        settings=settings,
        device=section,
        warnings=[
            *result.warnings,
            *([] if facts is None else device_warnings(facts)),
        ],
        links=links,
    )


def _not_finished(device: DeviceSettings | None) -> str:
    """Returns the part of a warning that names the unfinished comparisons."""
    if device is not None and device.knee:
        return "and its comparisons, the knee included, were not finished."
    return "and its comparisons were not finished."


def _device_facts(
    run: DeviceRun, device: DeviceSettings, raw: RawMeasurement, alone: Steady | None
) -> DeviceFacts:
    """Returns the facts of the run alone, without comparisons."""
    passes = len(run.begun) > 1 and len(raw.epochs) > 0
    return DeviceFacts(
        run=run,
        device=device,
        last_pass=run.elements - int(raw.epochs[-1, 0]) if passes else 0,
        capacity=results_depth(device),
        alone=alone,
        free=None,
        knee=None,
        samples=None,
    )


def _with_comparisons(facts: DeviceFacts, dataset: Dataset, size: int) -> DeviceFacts:
    """Measures a free source on the same device, and the knee if requested."""
    free = measure_free_source(size, facts.device)
    facts = dataclasses.replace(facts, free=free)
    if not facts.device.knee or facts.run.failure is not None or facts.alone is None:
        return facts
    try:
        knee = sweep_knee(dataset, 1 / facts.alone.rate)
    except tf.errors.OpError as error:
        return dataclasses.replace(facts, failed=f"{type(error).__name__} in the sweep")
    return dataclasses.replace(facts, knee=knee)


@contextlib.contextmanager
def _attaching_quietly() -> Iterator[None]:
    """Suppresses the line of the attached IPU: the result has the device."""
    logger = logging.getLogger("ipufeed")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _check_mode(dataset: Dataset, settings: Settings) -> None:
    """Refuses datasets and settings that a run through the device does not support."""
    if tf.is_symbolic_tensor(dataset._variant_tensor):
        raise ValueError(
            "--through device runs in eager mode, and the dataset was made in a graph. "
            "Leave out tf.compat.v1.disable_eager_execution(), or measure it without "
            "--through."
        )
    if not settings.memcpy:
        raise ValueError(
            "A run through the device always copies its elements, into the program: "
            "leave out --no-memcpy."
        )
    if device_hooks.synthetic_infeed() is not None or device_hooks.synthetic_outfeed():
        raise ValueError(
            "--through device needs data, and TF_POPLAR_FLAGS selects synthetic data, with "
            "which queues carry none. Unset it."
        )


def _complete_counts(
    run: DeviceRun, dataset: Dataset, own: LoaderError | None
) -> RawMeasurement:
    """Returns the consumer's counts, with the infeed's waits and the dataset's error."""
    _, _, alike = element_size(dataset)
    infeed, _ = waits(run)
    counters = {
        **run.raw.counters,
        "starved_ns": round(infeed.device_waited_s * 1e9),
        "blocked_ns": round(infeed.host_waited_s * 1e9),
        "same_leading_dimension": int(alike),
    }
    failure = _dataset_error(run.failure)
    if failure is not None and own:  # TensorFlow's has a traceback for a text
        failure = own
    return dataclasses.replace(run.raw, counters=counters, failure=failure)


def _dataset_error(failure: Any) -> Any:
    """Returns the dataset's error without the additions of the queue and TensorFlow."""
    if failure is None:
        return None
    message = PREFIX.sub("", str(failure.message), count=1)
    message = re.sub(r"\s*\[\[\{\{node \S+\}\}\]\](?:\s*\[Op:\S+\])?", "", message)
    return type(failure)(None, None, re.sub(r" ?\[Op:\S+\]", "", message).strip())


def measure_alone(dataset: Dataset, settings: Settings) -> Steady | None:
    """Measures the dataset without a device, for up to ALONE_S and as many passes."""
    limit = ALONE_S if settings.time_limit is None else settings.time_limit
    shorter = dataclasses.replace(settings, seconds=min(ALONE_S, limit), memcpy=False)
    raw, interruption = run_measurement(dataset, op_attributes(shorter))
    if interruption is not None:
        raise interruption
    if raw is None:
        return None
    elements = raw.counters["elements"]
    several = settings.passes is not None and elements > 0
    last_pass = elements - int(raw.epochs[-1, 0]) if several else 0
    return find_steady(raw.stamps, bool(raw.counters["ended"]), last_pass)


def _calibrate_device(bytes_per_element: int) -> Calibration | None:
    """Measures a null pipeline of such elements on the same path, for 0.3 s."""
    size = max(1, bytes_per_element)
    run, interruption = run_on_device(
        null_pipeline(size, 1), Settings(seconds=CALIBRATION_S)
    )
    if interruption is not None:
        raise interruption
    if run is None or run.elements < 2:
        return None
    seconds = (run.raw.counters["last_ns"] - run.first_ns) / 1e9
    count = run.elements - 1
    return Calibration(size, count, seconds / count) if seconds > 0 else None
