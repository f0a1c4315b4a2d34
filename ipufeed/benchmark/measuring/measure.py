"""The public `measure`: checks its arguments, runs the dataset, assembles the result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace

from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.calibration import calibrate
from ipufeed.benchmark.measuring.cpu_wait import RunQueueDelay
from ipufeed.benchmark.measuring.describe import describe_dataset, sample_rule
from ipufeed.benchmark.measuring.loader import limits_of, measure_loader
from ipufeed.benchmark.measuring.recording import Recording
from ipufeed.benchmark.measuring.run import (
    OpAttributes,
    Progress,
    RawMeasurement,
    run_measurement,
)
from ipufeed.benchmark.measuring.sections import (
    assemble,
    conditions_since,
    sections_of_op,
)
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import DatasetSection, WarningSection
from ipufeed.benchmark.result.settings import SettingError, Settings
from ipufeed.checks import check_function, check_name
from ipufeed.errors import MeasurementInterrupted
from ipufeed.sources.loaders.kinds import as_loader, kind_of, why_not
from ipufeed.tf_types import Dataset

# Runs a dataset, with the op's attributes, as run_measurement does.
RunDataset = Callable[
    [Dataset, OpAttributes, Callable[[Progress], None]],
    tuple[RawMeasurement | None, BaseException | None],
]


def measure(
    dataset: object,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
) -> Result:
    """Measures how fast `dataset` delivers, iterated as training does it.

    Graph rewrites, options and AUTOTUNE are those of `iter(dataset)`; the dataset is not
    changed. A dataset that fails or ends early also gives a result, with `error` or a
    warning, and the figures up to then.

    A loader of another framework (a PyTorch DataLoader, a Grain dataset, a generator, ...)
    is iterated by a Python loop, whose own cost is in `calibration`.

    Args:
        dataset: Any tf.data.Dataset: batched or not, finite or not, of any structure; or
            a loader that can be iterated (docs/loaders.md), or a generator function,
            which is called for each pass.
        settings: Bounds and options of the run. Default: about ten seconds.
        name: The dataset's name in the result. Default: its class.
        on_progress: Called about twenty times a second, on the calling thread.
        recording: Records the spans of feeder and consumer, for a trace. Default: None.

    Returns:
        The result. Its `epochs` are empty if the dataset had no element.

    Raises:
        TypeError: `dataset` is neither a tf.data.Dataset nor a loader, or another argument
            is of another type.
        ValueError: `settings.passes` for a dataset that is known to be infinite; for a
            loader, passes over one that can be read once, or a `recording`.
        RuntimeError: Called inside a tf.function, or with a dataset that was made in one.
        tf.errors.OpError: The dataset could not be started.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with the result so far.

    Threads: any; concurrent measurements share the machine, and each gets a lower rate.
    """
    check_reporting(name, on_progress, recording)
    dataset = as_loader(dataset)
    kind = kind_of(dataset)
    if kind is not None:
        settings = Settings() if settings is None else settings
        _check_settings(settings)
        result, interruption = measure_loader(
            dataset,
            kind,
            settings,
            name=name,
            on_progress=on_progress,
            recording=recording,
        )
        raise_interruption(interruption, result)
        return result
    return measure_run(
        run_measurement,
        dataset,
        settings,
        name=name,
        on_progress=on_progress,
        recording=recording,
    )


def measure_run(
    run: RunDataset,
    dataset: object,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
    helpers_s: Callable[[], float] = float,
) -> Result:
    """Measures a tf.data dataset as measure() does, with `run` for run_measurement.

    `helpers_s` returns the CPU seconds of the processes that belong to the run.
    """
    settings = Settings() if settings is None else settings
    dataset = check_arguments(dataset, settings)
    described = describe_dataset(dataset, name)
    check_ends(settings, described)
    before = machine.Activity.now(helpers_s())
    attributes = {**op_attributes(settings), "traced": recording is not None}
    delay = RunQueueDelay(on_progress)
    with recording or nullcontext():
        raw, interruption = run(dataset, attributes, delay)
    conditions = conditions_since(before, delay, helpers_s())
    if raw is None:
        raise_interruption(interruption, None)
        raise AssertionError("a measurement without a result was interrupted")
    if recording is not None:
        recording.requested_ns = raw.counters["requested_ns"]
    calibration = None
    later: list[WarningSection] = []
    if interruption is None and raw.counters["elements"] > 1:
        import tensorflow as tf

        try:
            mean = raw.counters["bytes"] / raw.counters["elements"]
            components = len(tf.nest.flatten(dataset.element_spec))
            calibration = calibrate(mean, components, settings.memcpy)
        except KeyboardInterrupt as error:
            interruption = error
            later = [warn.interrupted_later("and the harness's own cost is not known.")]
    rule = sample_rule(dataset, settings.items_per_element)
    own = sections_of_op(raw.counters, settings, conditions)
    result = assemble(raw, settings, described, rule, calibration, conditions, own)
    result = replace(result, warnings=[*later, *result.warnings])
    raise_interruption(interruption, result)
    return result


def raise_interruption(
    interruption: BaseException | None, result: Result | None
) -> None:
    """Raises MeasurementInterrupted with the result after Ctrl-C; other errors as is."""
    if interruption is None:
        return
    if isinstance(interruption, KeyboardInterrupt):
        raise MeasurementInterrupted(result) from interruption
    raise interruption


def check_arguments(dataset: object, settings: object) -> Dataset:
    """Refuses arguments of another type, and calls inside a tf.function."""
    _check_settings(settings)
    found = check_dataset(dataset)
    check_place(found)
    return found


def check_reporting(name: object, on_progress: object, recording: object) -> None:
    """Refuses a name, a progress callback or a recording of another type."""
    check_name(name)
    if on_progress is not None:
        check_function("on_progress", on_progress)
    if recording is not None and not isinstance(recording, Recording):
        raise TypeError(
            f"`recording` must be a Recording or None, got {type(recording).__name__} "
            f"{recording!r}."
        )


def check_ends(settings: Settings, described: DatasetSection) -> None:
    """Refuses passes over an infinite dataset."""
    if settings.passes is not None and described["cardinality"] == "infinite":
        raise SettingError(
            "{} needs a dataset that ends, and this one is infinite. Use {}, or {} "
            "and {}.",
            *("passes", "seconds", "epochs", "elements"),
        )


def check_dataset(dataset: object) -> Dataset:
    """Returns `dataset`; raises TypeError, with the remedy, if it is not a dataset."""
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        found: Dataset = dataset
        return found
    kind = type(dataset).__name__
    if isinstance(dataset, tf.data.Iterator):
        advice = "It is an iterator: give the dataset that it was made from."
    elif isinstance(dataset, type):
        advice = f"It is the class `{dataset.__name__}`: give an instance."
    elif callable(dataset):
        advice = "It can be called: give what it returns."
    else:
        advice = why_not(dataset) or (
            "A loader is what a `for` loop reads; wrap data in memory with "
            "tf.data.Dataset.from_tensor_slices."
        )
    raise TypeError(
        "`dataset` must be a tf.data.Dataset or a loader that can be iterated, got "
        f"{kind}. {advice}"
    )


def _check_settings(settings: object) -> None:
    if isinstance(settings, Settings):
        return
    advice = (
        "Settings(**settings)" if isinstance(settings, dict) else "Settings(seconds=5)"
    )
    raise TypeError(
        f"`settings` must be a Settings, got {type(settings).__name__}. Give {advice}."
    )


def check_place(dataset: Dataset) -> None:
    """Refuses a measurement that would run while a tf.function is traced."""
    import tensorflow as tf

    if tf.inside_function():
        raise RuntimeError(
            "measure() must be called from plain Python, and this is inside a "
            "tf.function, where it would run while the function is traced. Call it "
            "outside."
        )
    variant = dataset._variant_tensor
    if tf.is_symbolic_tensor(variant) and variant.graph.building_function:
        raise RuntimeError(
            "`dataset` must be made in plain Python, and this one was made inside a "
            "tf.function, which has ended. Make it outside."
        )


def op_attributes(settings: Settings) -> OpAttributes:
    """Returns the op's attributes (ipufeed/cc/measure/measurement.h) for the settings."""
    return asdict(limits_of(settings))
