"""Measures a dataset and puts the result together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipufeed.benchmark.loaders.kinds import kind_of, why_not
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.calibration import calibrate
from ipufeed.benchmark.measuring.cpu_wait import Waiting
from ipufeed.benchmark.measuring.describe import (
    components,
    describe_dataset,
    sample_rule,
)
from ipufeed.benchmark.measuring.loader import measure_loader
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement, run_measurement
from ipufeed.benchmark.measuring.sections import (
    assemble,
    conditions_since,
    sections_of_op,
)
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import DatasetSection, WarningSection
from ipufeed.benchmark.result.settings import (
    EPOCH_SECONDS,
    MOST,
    SettingError,
    Settings,
)
from ipufeed.errors import MeasurementInterrupted
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

# Runs a dataset, with the op's attributes, as run_measurement does.
RunDataset = Callable[
    [Any, dict[str, Any], Callable[[Progress], None]],
    tuple[RawMeasurement | None, BaseException | None],
]


def measure(
    dataset: Any,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
) -> Result:
    """Measures how fast `dataset` delivers, as training would iterate it.

    Graph rewrites, options and AUTOTUNE are those of `iter(dataset)`; nothing of the
    dataset is changed. A dataset that fails or ends early is a result, too: with `error`
    or a warning, and all that came before.

    A loader of another framework (a PyTorch DataLoader, a Grain dataset, a generator, ...)
    is iterated by a Python loop, whose own cost is in `calibration`.

    Args:
        dataset: Any tf.data.Dataset: batched or not, finite or not, of any structure; or
            a loader that can be iterated (docs/loaders.md).
        settings: How much, and how. Default: about ten seconds.
        name: Stands in the result. Default: the dataset's class.
        on_progress: Called about twenty times a second, on the calling thread.
        recording: Gets what feeder and consumer did, for a trace. Default: none.

    Returns:
        The result. Its `epochs` are empty if the dataset had no element.

    Raises:
        TypeError: `dataset` is neither a tf.data.Dataset nor a loader, or `settings` no
            Settings.
        ValueError: `settings.passes` for a dataset that is known never to end; of a
            loader, passes over what is read once, or a `recording`.
        RuntimeError: Called inside a tf.function, or with a dataset that was made in one.
        tf.errors.OpError: The dataset could not be started.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with the result so far.

    Threads: any; several at a time share the machine, and so measure less each.
    """
    kind = kind_of(dataset)
    if kind is not None:
        settings = Settings() if settings is None else settings
        check_settings(settings)
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
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
) -> Result:
    """Measures as measure() does, with `run` in the place of run_measurement."""
    settings = Settings() if settings is None else settings
    check_arguments(dataset, settings)
    described = describe_dataset(dataset, name)
    check_ends(settings, described)
    before = machine.Activity.now()
    attributes = {**op_attributes(settings), "traced": recording is not None}
    waiting = Waiting(on_progress)
    with recording or nullcontext():
        raw, interruption = run(dataset, attributes, waiting)
    conditions = conditions_since(before, waiting)
    if raw is None:
        raise_interruption(interruption, None)
        raise AssertionError("a measurement without a result was interrupted")
    if recording is not None:
        recording.requested_ns = raw.counters["requested_ns"]
    calibration = None
    later: list[WarningSection] = []
    if interruption is None and raw.counters["elements"] > 1:
        try:
            mean = raw.counters["bytes"] / raw.counters["elements"]
            calibration = calibrate(
                mean, components(dataset.element_spec), settings.memcpy
            )
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
    """Ctrl-C keeps its meaning and carries the result; anything else is passed on."""
    if interruption is None:
        return
    if isinstance(interruption, KeyboardInterrupt):
        raise MeasurementInterrupted(result) from interruption
    raise interruption


def check_arguments(dataset: Any, settings: Any) -> None:
    """Refuses what is neither a dataset nor Settings, and a call inside a tf.function."""
    check_settings(settings)
    check_dataset(dataset)
    check_place(dataset)


def check_ends(settings: Settings, described: DatasetSection) -> None:
    """Refuses passes through a dataset that never ends."""
    if settings.passes is not None and described["cardinality"] == "infinite":
        raise SettingError(
            "{} needs a dataset that ends, and this one repeats for ever. Use {}, or {} "
            "and {}.",
            *("passes", "seconds", "epochs", "elements"),
        )


def check_dataset(dataset: Any) -> None:
    """Raises for what is not a dataset, with the way to make one of it."""
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        return
    kind = type(dataset).__name__
    if isinstance(dataset, tf.data.Iterator):
        advice = "It is an iterator: give the dataset that it was made from."
    elif isinstance(dataset, type):
        advice = f"It is the class `{dataset.__name__}`: give an instance."
    elif callable(dataset):
        advice = "It can be called: give what it returns."
    else:
        advice = why_not(dataset) or (
            "Wrap data in memory with tf.data.Dataset.from_tensor_slices."
        )
    raise TypeError(
        "`dataset` must be a tf.data.Dataset or a loader that can be iterated, got "
        f"{kind}. {advice}"
    )


def check_settings(settings: Any) -> None:
    """Refuses what is not Settings."""
    if isinstance(settings, Settings):
        return
    advice = (
        "Settings(**settings)" if isinstance(settings, dict) else "Settings(seconds=5)"
    )
    raise TypeError(
        f"`settings` must be a Settings, got {type(settings).__name__}. Give {advice}."
    )


def check_place(dataset: Any) -> None:
    """Refuses what would run while a function is traced, and not when it is called."""
    import tensorflow as tf

    if tf.inside_function():
        raise RuntimeError(
            "measure() must be called from plain Python, and this is inside a "
            "tf.function: it would run while that is traced. Call it outside."
        )
    variant = dataset._variant_tensor
    if tf.is_symbolic_tensor(variant) and variant.graph.building_function:
        raise RuntimeError(
            "`dataset` must be made in plain Python, and this one was made inside a "
            "tf.function, which has ended. Make it outside."
        )


def op_attributes(settings: Settings) -> dict[str, Any]:
    """The op's attributes (ipufeed/cc/measure/measurement.h) for these settings."""
    limit = settings.time_limit
    return {
        "epochs": settings.epochs or 0,
        "elements_per_epoch": settings.elements or 0,
        "epoch_ns": int(EPOCH_SECONDS * 1e9),
        "seconds_ns": 0 if limit is None else max(1, round(limit * 1e9)),
        "passes": min(settings.passes or 1, MOST),
        "epoch_per_pass": settings.passes is not None,
        "copy": settings.memcpy,
    }
