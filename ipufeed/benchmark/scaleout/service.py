"""Measures a pipeline through tf.data service, and what each worker contributes.

    pipeline --registered--> dispatcher --tasks--> workers --elements--> this process
                             a process             N processes           measured as usual

The engine is TensorFlow's; this module starts, watches and measures it. A worker has no
counters, so a step that counts and passes on its elements is added at the end of the
pipeline for local workers (cc/data/count_elements_op.cc). CPU times come from /proc.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipufeed import _native
from ipufeed.benchmark.graph.step_functions import calls_python
from ipufeed.benchmark.measuring.measure import (
    check_dataset,
    check_place,
    measure,
    measure_run,
)
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement, run_measurement
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import ServiceSection, WarningSection
from ipufeed.benchmark.result.settings import Settings
from ipufeed.benchmark.scaleout.cluster import Cluster
from ipufeed.benchmark.scaleout.settings import ServiceSettings
from ipufeed.benchmark.scaleout.watch import ServiceLostError, Watch, connect
from ipufeed.errors import ScaleOutError
from ipufeed.render.units import duration
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

CONNECT_S = 5.0
REGISTER_S = 30.0
# TensorFlow's rewrite for these finds the reader only if it knows the steps after it.
FILE_POLICIES = ("file", "file_or_data")
# The promise of each policy when a worker dies; those of files have no tests.
PROMISES = {
    "off": "Without sharding each worker delivers the whole dataset: the rest of its copy "
    "is missing, those of the others are complete.",
    "dynamic": "Dynamic sharding delivers each element at most once: what was assigned to "
    "the worker and not delivered is lost, and nothing comes twice.",
    "data": "The rest of the worker's shard is lost, and nothing comes twice.",
    "file": "The rest of the worker's files is lost, and nothing comes twice.",
    "file_or_data": "The rest of the worker's shard is lost, and nothing comes twice.",
}


def measure_service(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    service: ServiceSettings,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    recording: Recording | None = None,
) -> Result:
    """Measures `dataset` through tf.data service.

    Args:
        dataset: A tf.data.Dataset of TensorFlow's ops alone: Python functions cannot be
            sent to a worker.
        settings: Length of the run with each number of workers.
        service: The service.
        name: As for measure().
        on_progress: As for measure().
        recording: As for measure(), of the run with the workers of `service`.

    Returns:
        The result for the workers of `service`, with a section `service`. It has an `error`
        if the dispatcher or workers died and no more elements came.

    Raises:
        ScaleOutError: The pipeline calls Python, a process did not start, or the service
            cannot be reached.
        And the errors of measure().

    Threads: one, which must live until it returns.
    """
    settings = Settings() if settings is None else settings
    check_dataset(dataset)
    check_place(dataset)
    _check_sendable(dataset)
    asked = service.workers
    counts: list[int | None] = [*service.scale]
    if asked not in counts:
        counts.append(asked)
    rows, main = [], None
    for count in counts:
        recorded = recording if count == asked else None
        if count == 0:
            result = measure(dataset, settings, name=name, on_progress=on_progress)
        else:
            result = _measure_workers(
                dataset, settings, service, count, name, on_progress, recorded
            )
        rows.append(_row_of(count, result))
        if count == asked:
            main = result
    if main is None:
        raise AssertionError("the asked number of workers is among those measured")
    section: ServiceSection = {**(main.service or {}), "scale": with_efficiency(rows)}
    return dataclasses.replace(main, service=section)


def _check_sendable(dataset: Dataset) -> None:
    """Refuses a pipeline that cannot be sent to another process."""
    if tf.is_symbolic_tensor(dataset._variant_tensor):
        raise ScaleOutError(
            "--service runs in eager mode, and the dataset was made in a graph. Leave out "
            "tf.compat.v1.disable_eager_execution()."
        )
    try:
        python = calls_python(dataset)
    except tf.errors.OpError as error:
        raise ScaleOutError(
            f"the pipeline cannot be sent to another process: {error.message}"
        ) from error
    if python:
        raise ScaleOutError(
            "the pipeline calls a Python function (from_generator, py_function, "
            "numpy_function, or a source that reads in Python), which cannot be sent to "
            "another process. Use TensorFlow's ops instead, or --processes N, where each "
            "process makes its own."
        )


def _measure_workers(
    dataset: Dataset,
    settings: Settings,
    service: ServiceSettings,
    count: int | None,
    name: str | None,
    on_progress: Callable[[Progress], None] | None,
    recording: Recording | None,
) -> Result:
    """Returns the result with `count` local workers; None: with a running service."""
    if count is None:
        _check_reachable(service.service)
    cluster = nullcontext(None) if count is None else Cluster(count)
    with cluster as own:
        target = service.service if own is None else own.target
        counted = own is not None and service.sharding not in FILE_POLICIES
        remote = distribute(dataset, target, service, counted)
        watch = Watch(own, target, service.kill_worker_after)

        def run(
            dataset: Dataset,
            attributes: dict[str, Any],
            on_progress: Callable[[Progress], None] | None = None,
        ) -> tuple[RawMeasurement | None, BaseException | None]:
            return run_watched(remote, attributes, on_progress, watch)

        result = measure_run(
            run,
            dataset,
            settings,
            name=name,
            on_progress=on_progress,
            recording=recording,
            helpers_s=float if own is None else own.cpu_seconds,
        )
        section: ServiceSection = {
            "service": service.service if count is None else f"local:{count}",
            "sharding": service.sharding,
            "compression": service.compression,
            "workers": None if own is None else watch.worker_rows(counted),
            "dispatcher": None if own is None else watch.dispatcher_row(),
            "produced_elements": sum(own.counts()) if counted and own else None,
            "delivered_elements": result.elements,
            "deaths": watch.deaths,
        }
    silent = 0.0 if result.error else watch.silent_at_end
    warnings = [*death_warnings(section, silent), *result.warnings]
    return dataclasses.replace(result, service=section, warnings=warnings)


def run_watched(
    remote: Dataset,
    attributes: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
    watch: Watch,
) -> tuple[RawMeasurement | None, BaseException | None]:
    """Calls run_measurement with a watch; a lost service is an error of the dataset."""
    watch.forward_to(on_progress)
    raw, interruption = run_measurement(remote, attributes, watch)
    watch.finish()
    if not isinstance(interruption, ServiceLostError):
        return raw, interruption
    if raw is None:
        raise ScaleOutError(str(interruption)) from interruption
    failure = tf.errors.UnavailableError(None, None, str(interruption))
    counters = {**raw.counters, "stopped": 0}  # not by the user
    return dataclasses.replace(raw, counters=counters, failure=failure), None


def distribute(
    dataset: Dataset, target: str, service: ServiceSettings, counted: bool
) -> Dataset:
    """Returns a dataset that gets its elements from the service.

    Raises:
        ScaleOutError: The service refuses the pipeline, or does not answer.
    """
    policy = tf.data.experimental.service.ShardingPolicy[service.sharding.upper()]
    compression = {"auto": "AUTO", "snappy": "SNAPPY", "none": None}
    source = _count_elements(dataset) if counted else dataset
    outcome: list[Dataset | BaseException] = []

    def register() -> None:
        try:
            outcome.append(
                source.apply(
                    tf.data.experimental.service.distribute(
                        policy, target, compression=compression[service.compression]
                    )
                )
            )
        except BaseException as error:
            outcome.append(error)

    # In a thread: TensorFlow retries for up to an hour, and Ctrl-C does not end it.
    thread = threading.Thread(target=register, name="ipufeed_register", daemon=True)
    thread.start()
    deadline = time.monotonic() + REGISTER_S
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.05)
    if not outcome:
        raise ScaleOutError(
            f"{target} did not answer within {REGISTER_S:g} s: is it a dispatcher of "
            "tf.data service?"
        )
    (found,) = outcome
    if isinstance(found, tf.errors.OpError):
        raise ScaleOutError(
            f"{target} does not take the pipeline: {found.message}"
        ) from found
    if isinstance(found, BaseException):
        raise found
    return found


def _count_elements(dataset: Dataset) -> Dataset:
    """Returns the dataset with a step that counts its elements in the worker."""
    from tensorflow.python.data.ops import dataset_ops

    class CountElementsDataset(dataset_ops.UnaryUnchangedStructureDataset):  # type: ignore[misc]
        """See ipufeed/cc/data/count_elements_op.cc."""

        def __init__(self, source: Any) -> None:
            variant = _native.load().ipufeed_count_elements_dataset(
                source._variant_tensor,
                output_types=source._flat_types,
                output_shapes=source._flat_shapes,
            )
            super().__init__(source, variant)

    counted: Dataset = CountElementsDataset(dataset)
    return counted


def _check_reachable(target: str) -> None:
    """Refuses a target where no server listens: TensorFlow would retry for an hour."""
    try:
        connect(target, CONNECT_S)
    except (OSError, OverflowError) as error:
        raise ScaleOutError(
            f"no server listens at {target} ({error}): start a dispatcher of tf.data "
            "service there, or have one started with --service local:N."
        ) from error


def _row_of(count: int | None, result: Result) -> dict[str, Any]:
    """Returns a point of the scaling curve."""
    steady = result.steady
    return {
        "workers": count,
        "elements_per_second": None
        if steady is None
        else steady["elements_per_second"],
        "interval": None if steady is None else steady["interval"],
        "error": result.error,
    }


def with_efficiency(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds to each point its rate divided by that of the same number of single workers."""
    one = next(
        (row["elements_per_second"] for row in rows if row["workers"] == 1), None
    )
    return [
        {
            **row,
            "efficiency": row["elements_per_second"] / one / row["workers"]
            if one and row["workers"] and row["elements_per_second"]
            else None,
        }
        for row in rows
    ]


def death_warnings(
    section: ServiceSection, silent: float = 0.0
) -> list[WarningSection]:
    """Returns a warning for each process that died.

    Args:
        section: The section `service` of the result.
        silent: Seconds without an element at the end of the run.
    """
    found: list[WarningSection] = []
    for death in section["deaths"]:
        message = (
            f"The {death['process']} ended {duration(death['seconds'])} after the first "
            f"element ({death['how']}), when {death['elements']:,} elements had come."
        )
        if death["process"] != "dispatcher":
            message += " " + PROMISES[section["sharding"]]
            if silent:
                message += (
                    f" No element came in the last {duration(silent)} of the run: measure "
                    "for longer (--seconds) to see whether any still does."
                )
        found.append({"code": "worker_died", "message": message})
    return found
