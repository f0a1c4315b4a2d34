"""Measures a dataset on its whole way through the device, and each link of that way.

    dataset --> infeed --> loop on the device --> outfeed --> host
    alone       starved,   its own time           blocked     latency
                blocked

The rate is that of the loop: how often it got an element. What each link did meanwhile
is in `Result.links` (links.py). Afterwards the dataset is measured alone, for a moment,
and then a null pipeline on the same way: the most that this way can carry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from ipufeed.benchmark.device.feed_check import check_feedable
from ipufeed.benchmark.device.free_source import measure_free_source
from ipufeed.benchmark.device.knee import sweep_knee
from ipufeed.benchmark.device.links import links_section, slowest_by_verdict, waits
from ipufeed.benchmark.device.run import DeviceRun, results_depth, run_on_device
from ipufeed.benchmark.device.section import DeviceFacts, device_section
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.warnings import device_warnings
from ipufeed.benchmark.loaders.as_dataset import as_dataset
from ipufeed.benchmark.loaders.kinds import Kind, kind_of
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring.calibration import (
    CALIBRATION_S,
    Calibration,
    null_pipeline,
)
from ipufeed.benchmark.measuring.cpu_wait import Waiting
from ipufeed.benchmark.measuring.describe import (
    SampleRule,
    describe_dataset,
    sample_rule,
)
from ipufeed.benchmark.measuring.loader import rule_of
from ipufeed.benchmark.measuring.measure import (
    check_arguments,
    check_ends,
    op_attributes,
    raise_interruption,
)
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
from ipufeed.benchmark.result.sections import SettingsSection, WarningSection
from ipufeed.benchmark.result.settings import Settings
from ipufeed.queues.hooks import surroundings
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

# The dataset alone is for comparison: so long at most.
ALONE_S = 3.0
# What the device's queue puts before the dataset's own message.
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
            of another framework, whose arrays are handed to tf.data (as_dataset.py).
        settings: How much. Default: about ten seconds, and then three for the dataset
            alone.
        name: Stands in the result. Default: the dataset's class.
        on_progress: Called about twenty times a second, on the calling thread.
        recording: Gets what feeder, program and host did, for a trace. Default: none.
        device: How long a step takes, how large its results are, and so on. Default: a
            step takes as long as the hand-over.

    Returns:
        The result, with `links`, and with `device` if that was given. Its `memcpy` is
        None: the copy into the program is a part of the device's time.

    Raises:
        TypeError: `dataset` is neither a tf.data.Dataset nor a loader.
        ValueError: The elements cannot be fed (the message names the edit that helps), the
            dataset was not made in eager mode, or the settings do not fit.
        tf.errors.OpError: The dataset could not be started.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with the result so far.

    Threads: any, one measurement at a time: it takes IPU 0.
    """
    settings = settings or Settings()
    loader = kind_of(dataset)
    if loader is not None:
        dataset = as_dataset(dataset, loader)
    specs = checked_specs(dataset, settings)
    described = describe_dataset(dataset, name, loader)
    check_ends(settings, described)
    before = machine.Activity.now()
    with attaching_quietly(), recording or contextlib.nullcontext():
        waiting = Waiting(on_progress)
        run, interruption = run_on_device(dataset, settings, waiting, device)
    conditions = conditions_since(before, waiting)
    if recording is not None:
        recording.requested_ns = run.requested_ns
    raw = as_raw(run, specs)
    compared, calibration = Comparisons(), None
    later: list[WarningSection] = []
    if interruption is None and run.table.elements:
        size = raw.counters["bytes"] // run.table.elements
        try:
            if run.failure is None:
                compared.alone = measure_alone(dataset, settings)
            calibration = calibrate_device(size)
            if device is not None:
                facts = device_facts(run, device, raw, compared.alone)
                compared.facts = with_comparisons(facts, dataset, size)
        except KeyboardInterrupt as error:
            interruption = error
            later = [interrupted_later(not_finished(device))]
    rule = rule_for(dataset, loader, raw, settings)
    # The copy into the program is a part of the device's time.
    own = OwnSections(None, resources_section(raw.counters, conditions))
    result = assemble(raw, settings, described, rule, calibration, conditions, own)
    if device is not None and run.table.elements:
        compared.facts = dataclasses.replace(
            compared.facts or device_facts(run, device, raw, compared.alone),
            samples=result.dataset["samples_per_element"],
            interrupted=interruption is not None,
        )
    result = with_links(result, run, device, compared)
    result = dataclasses.replace(result, warnings=[*later, *result.warnings])
    raise_interruption(interruption, result)
    return result


def checked_specs(dataset: Any, settings: Settings) -> list[Any]:
    """The flat specs of what can be measured in this way; refuses the rest."""
    check_arguments(dataset, settings)
    check_mode(dataset, settings)
    return check_feedable(dataset.element_spec)


def rule_for(
    dataset: Dataset, loader: Kind | None, raw: RawMeasurement, settings: Settings
) -> SampleRule:
    """What a sample is, of a dataset or of the loader that it was made of."""
    if loader is None:
        return sample_rule(dataset, settings.items_per_element)
    alike = isinstance(dataset.element_spec, (tuple, dict)) and bool(
        raw.counters["same_leading_dimension"]
    )
    return rule_of(loader, alike, settings.items_per_element)


@dataclasses.dataclass
class Comparisons:
    """What a run through the device is compared with, as far as it was measured.

    Attributes:
        alone: The steady state of the dataset without a device.
        facts: Of a device with a step time.
    """

    alone: Steady | None = None
    facts: DeviceFacts | None = None


def with_links(
    result: Result,
    run: DeviceRun,
    device: DeviceSettings | None,
    compared: Comparisons,
) -> Result:
    """Adds `links` and `device`."""
    facts, alone = compared.facts, compared.alone
    links = links_section(run, alone) if run.table.elements else None
    section = None if facts is None else device_section(facts)
    if links is not None and section is not None:
        rate = section["steps"] / section["seconds"]
        links["slowest"] = slowest_by_verdict(section["verdict"], rate, alone)
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


def not_finished(device: DeviceSettings | None) -> str:
    """What comes after the measurement, for a warning."""
    if device is not None and device.knee:
        return "and what it is compared with, the knee included, was not finished."
    return "and what it is compared with was not finished."


def device_facts(
    run: DeviceRun, device: DeviceSettings, raw: RawMeasurement, alone: Steady | None
) -> DeviceFacts:
    """The device's section from the run alone."""
    passes = len(run.begun) > 1 and len(raw.epochs) > 0
    return DeviceFacts(
        run=run,
        device=device,
        last_pass=run.table.elements - int(raw.epochs[-1, 0]) if passes else 0,
        capacity=results_depth(device),
        alone=alone,
        free=None,
        knee=None,
        samples=None,
    )


def with_comparisons(facts: DeviceFacts, dataset: Dataset, size: int) -> DeviceFacts:
    """A free source on the same device, and the knee where it was asked for."""
    free = measure_free_source(size, facts.device)
    facts = dataclasses.replace(facts, free=free)
    if not facts.device.knee or facts.run.failure is not None or facts.alone is None:
        return facts
    try:
        knee = sweep_knee(dataset, 1 / facts.alone.rate)
    except tf_error() as error:
        return dataclasses.replace(facts, failed=f"{type(error).__name__} in the sweep")
    return dataclasses.replace(facts, knee=knee)


def tf_error() -> type[Exception]:
    """What a dataset fails with."""
    import tensorflow as tf

    kind: type[Exception] = tf.errors.OpError
    return kind


@contextlib.contextmanager
def attaching_quietly() -> Iterator[None]:
    """Keeps the line about the attached IPU off stderr: the result has what ran where."""
    logger = logging.getLogger("ipufeed")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def check_mode(dataset: Any, settings: Settings) -> None:
    """Refuses what a run through the device cannot be."""
    import tensorflow as tf

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
    if surroundings.synthetic_infeed() is not None or surroundings.synthetic_outfeed():
        raise ValueError(
            "--through device needs data, and TF_POPLAR_FLAGS asks for synthetic data, "
            "which feeds nothing. Unset it."
        )


def as_raw(run: DeviceRun, specs: list[Any]) -> RawMeasurement:
    """The run in the form that the measuring op gives (cc/measure/measurement.h).

    Without the counters of what this path does not have: copies, and threads of the op.
    """
    table = run.table
    each = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    leading = {spec.shape[0] if spec.shape.rank else None for spec in specs}
    samples = min((size for size in leading if size is not None), default=0)
    infeed, _ = waits(run)
    epochs = table.rows(each, samples)
    counters = {
        "requested_ns": run.requested_ns,
        "created_ns": run.created_ns,
        "first_ns": table.first_ns,
        "steady_ns": table.first_ns,
        "last_ns": table.last_ns,
        "finished_ns": run.finished_ns or table.last_ns,
        "elements": table.elements,
        "bytes": table.elements * each,
        "opaque": 0,  # an infeed refuses them
        "starved_ns": round(infeed.device_waited_s * 1e9),
        "blocked_ns": round(infeed.host_waited_s * 1e9),
        "cpu_ns": run.cpu_ns,
        "cpu_wall_ns": run.cpu_wall_ns,
        "capacity": infeed.capacity,
        "ended": int(run.ended),
        "stopped": int(run.stopped),
        "same_leading_dimension": int(len(leading) == 1 and None not in leading),
        "epochs_per_entry": 1,
    }
    return RawMeasurement(
        counters,
        epochs,
        table.stamps(),
        own_words(run.failure),
        run.marks.rows(each),
    )


def own_words(failure: Any) -> Any:
    """The dataset's error without what the queue, and TensorFlow, have put around it."""
    if failure is None:
        return None
    message = PREFIX.sub("", str(failure.message), count=1)
    message = re.sub(r"\s*\[\[\{\{node \S+\}\}\]\](?:\s*\[Op:\S+\])?", "", message)
    return type(failure)(None, None, re.sub(r" ?\[Op:\S+\]", "", message).strip())


def measure_alone(dataset: Dataset, settings: Settings) -> Steady | None:
    """The dataset without a device, for up to ALONE_S: its steady rate."""
    limit = ALONE_S if settings.time_limit is None else settings.time_limit
    shorter = dataclasses.replace(
        settings, seconds=min(ALONE_S, limit), passes=None, memcpy=False
    )
    raw, interruption = run_measurement(dataset, op_attributes(shorter))
    if interruption is not None:
        raise interruption
    if raw is None:
        return None
    return find_steady(raw.stamps, bool(raw.counters["ended"]))


def calibrate_device(bytes_per_element: int) -> Calibration | None:
    """A null pipeline of such elements on the same way, for 0.3 s."""
    size = max(1, bytes_per_element)
    run, interruption = run_on_device(
        null_pipeline(size, 1), Settings(seconds=CALIBRATION_S)
    )
    if interruption is not None:
        raise interruption
    table = run.table
    if table.elements < 2 or table.last_ns <= table.first_ns:
        return None
    seconds = (table.last_ns - table.first_ns) / 1e9
    return Calibration(size, table.elements - 1, seconds / (table.elements - 1))
