"""The same pipeline through tf.data service, and what each worker contributes.

    pipeline --registered--> dispatcher --tasks--> workers --elements--> this process
                             a process             N processes           measured as always

The engine is TensorFlow's; this starts it, watches it, and reports its outcome. A worker
does not report what it does, so one pass-through step is put at the end of the pipeline
that the workers of our own run: it counts (cc/data/count_elements_op.cc). CPU times come
from /proc.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ipufeed import _native
from ipufeed.benchmark.graph.dataset_graph import calls_python
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
from ipufeed.benchmark.scaleout.targets import workers_of
from ipufeed.benchmark.scaleout.watch import LostError, Watch
from ipufeed.errors import ScaleOutError
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

CONNECT_S = 5.0
REGISTER_S = 30.0
# TensorFlow's rewrite for these finds the reader behind steps that it knows, and no others.
FILE_POLICIES = ("file", "file_or_data")
# What a policy promises when a worker dies; all but those of files have tests.
PROMISES = {
    "off": "Without sharding each worker delivers the whole dataset: the rest of its copy "
    "is missing, those of the others are whole.",
    "dynamic": "Dynamic sharding delivers each element at most once: what the worker had "
    "been given and not delivered is lost, and nothing comes twice.",
    "data": "The rest of the worker's shard is lost, and nothing comes twice.",
    "file": "The rest of the worker's files is lost, and nothing comes twice.",
    "file_or_data": "The rest of the worker's shard is lost, and nothing comes twice.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Which service, and how it is used.

    Args:
        service: `local:N`, or `grpc://host:port` for one that is there.
        sharding: `off`, `dynamic`, `file`, `data` or `file_or_data`, as
            tf.data.experimental.service.ShardingPolicy has them.
        compression: `auto`, `snappy` or `none`.
        scale: Numbers of workers to measure as well; 0 is without a service.
        kill_worker_after: Kill worker 0 this many seconds after the first element.
    """

    service: str
    sharding: str = "off"
    compression: str = "auto"
    scale: tuple[int, ...] = ()
    kill_worker_after: float | None = None


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
        settings: How much, of each number of workers.
        service: Which service.
        name: As for measure().
        on_progress: As for measure().
        recording: As for measure(), of the workers that `service` names.

    Returns:
        The result for the workers that `service` names, with `service`. If workers or the
        dispatcher die and nothing comes any more, it has an `error`.

    Raises:
        ScaleOutError: The pipeline calls Python, a process did not start, or the service
            cannot be reached.
        And all that measure() raises.

    Threads: one, which must live until it returns.
    """
    settings = Settings() if settings is None else settings
    check_dataset(dataset)
    check_place(dataset)
    check_sendable(dataset)
    asked = workers_of(service.service)
    counts: list[int | None] = [*service.scale]
    if asked not in counts:
        counts.append(asked)
    rows, main = [], None
    for count in counts:
        recorded = recording if count == asked else None
        if count == 0:
            result = measure(dataset, settings, name=name, on_progress=on_progress)
        else:
            result = measure_workers(
                dataset, settings, service, count, name, on_progress, recorded
            )
        rows.append(row_of(count, result))
        if count == asked:
            main = result
    if main is None:
        raise AssertionError("the asked number of workers is among those measured")
    section: ServiceSection = {**(main.service or {}), "scale": with_efficiency(rows)}
    return dataclasses.replace(main, service=section)


def check_sendable(dataset: Any) -> None:
    """Refuses what cannot be sent to another process.

    Raises:
        ScaleOutError: The pipeline calls Python, or cannot be serialised.
    """
    import tensorflow as tf

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


def measure_workers(
    dataset: Dataset,
    settings: Settings,
    service: ServiceSettings,
    count: int | None,
    name: str | None,
    on_progress: Callable[[Progress], None] | None,
    recording: Recording | None,
) -> Result:
    """The result with `count` workers of our own, or with a service that is there."""
    if count is None:
        check_reachable(service.service)
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
    remote: Any,
    attributes: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
    watch: Watch,
) -> tuple[RawMeasurement | None, BaseException | None]:
    """run_measurement, with an eye on the processes: their loss is the dataset's error."""
    import tensorflow as tf

    watch.pass_on_to(on_progress)
    raw, interruption = run_measurement(remote, attributes, watch)
    watch.end()
    if not isinstance(interruption, LostError):
        return raw, interruption
    if raw is None:
        raise ScaleOutError(str(interruption)) from interruption
    failure = tf.errors.UnavailableError(None, None, str(interruption))
    counters = {**raw.counters, "stopped": 0}  # not by the user
    return dataclasses.replace(raw, counters=counters, failure=failure), None


def distribute(
    dataset: Dataset, target: str, service: ServiceSettings, counted: bool
) -> Any:
    """The dataset that gets its elements from the service.

    Raises:
        ScaleOutError: The service does not take it, or does not answer.
    """
    import tensorflow as tf

    policy = tf.data.experimental.service.ShardingPolicy[service.sharding.upper()]
    compression = {"auto": "AUTO", "snappy": "SNAPPY", "none": None}
    source = count_elements(dataset) if counted else dataset
    outcome: list[Any] = []

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

    # A thread: TensorFlow asks for up to an hour, deaf to Ctrl-C.
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
    if isinstance(outcome[0], tf.errors.OpError):
        raise ScaleOutError(
            f"{target} does not take the pipeline: {outcome[0].message}"
        ) from outcome[0]
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def count_elements(dataset: Dataset) -> Any:
    """The same dataset, whose elements are counted where it runs."""
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

    return CountElementsDataset(dataset)


def check_reachable(target: str) -> None:
    """Checks that a server listens there: TensorFlow would ask for an hour.

    Raises:
        ScaleOutError: None does.
    """
    host, _, port = target.removeprefix("grpc://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ScaleOutError(
            f"no server listens at {target} ({error}): start a dispatcher of tf.data "
            "service there, or have one started with --service local:N."
        ) from error


def row_of(count: int | None, result: Result) -> dict[str, Any]:
    """A point of the scaling curve."""
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
    """The curve with each point's rate divided by that of as many single workers."""
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
    """A warning for each process that died.

    Args:
        section: `service` of the result.
        silent: Seconds without an element at the end of a run that then was over.
    """
    found: list[WarningSection] = []
    for death in section["deaths"]:
        message = (
            f"The {death['process']} ended {death['seconds']:.3g} s after the first "
            f"element ({death['how']}), when {death['elements']:,} elements had come."
        )
        if death["process"] != "dispatcher":
            message += " " + PROMISES[section["sharding"]]
            if silent:
                message += (
                    f" No element came in the last {silent:.2g} s of the run: measure for "
                    "longer (--seconds) to see whether any still does."
                )
        found.append({"code": "worker_died", "message": message})
    return found
