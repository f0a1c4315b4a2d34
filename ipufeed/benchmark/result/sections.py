"""The sections of a result, as they stand in the JSON: docs/result.md explains each.

Times are in seconds, `_ns` in nanoseconds, bandwidths in GB/s (1e9 bytes), memory in bytes.
An interval is the 95 % confidence interval, [low, high], or null where it is unknown. A
section that does not apply to a run is null.
"""

from __future__ import annotations

from typing import Any, TypedDict

Interval = list[float] | tuple[float, float] | None


class EpochSection(TypedDict):
    """A stretch of the run, in the five fields of Graphcore's dataset_benchmark."""

    elements_processed: int
    total_bytes_processed: int
    time_elapsed: float
    elements_per_second: float
    bandwidth: float


class DatasetSection(TypedDict, total=False):
    """What was measured; the last three are known when it has run.

    `loader` is there for a loader of another framework alone: its kind.
    """

    name: str
    loader: str
    element_spec: Any
    cardinality: int | str
    autotune: bool
    cache: bool
    bytes_per_element: float | None
    samples_per_element: float | None
    samples_rule: str


class SettingsSection(TypedDict, total=False):
    """What was asked for; from `through` on of a run through the device."""

    epochs: int | None
    elements: int | None
    seconds: float | None
    passes: int | None
    memcpy: bool
    items_per_element: float | None
    epoch_seconds: float | None
    epochs_per_entry: int
    through: str
    step_seconds: float | None
    preset: str | None
    knee: bool
    result_bytes: int | None
    read_seconds: float | None


class MachineSection(TypedDict, total=False):
    """What it ran on; CPUs that other processes kept busy meanwhile."""

    cpu: str
    cpus: int | None
    usable_cpus: int
    governor: str | None
    memory_bytes: int | None
    memory_available_bytes: int | None
    kernel: str
    python: str
    tensorflow: str
    numpy: str
    ipufeed: str
    load_average: float | None
    cpus_used_by_others: float | None


class StartupSection(TypedDict):
    """From asking for the iterator to the first element; the date is in UTC."""

    requested_at: str
    seconds: float
    create_iterator_seconds: float


class SteadySection(TypedDict, total=False):
    """The rate to quote; `windows` is there for one process alone."""

    elements: int
    seconds: float
    elements_per_second: float
    samples_per_second: float | None
    bandwidth: float | None
    interval: Interval
    pass_rates: list[float] | None
    left_out: list[dict[str, Any]]
    windows: dict[str, list[Any]]


class LatencySection(TypedDict):
    """Nanoseconds between elements."""

    gaps: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: int
    histogram: dict[str, Any]


class MemcpySection(TypedDict):
    """What the copies took."""

    seconds: float
    seconds_per_element: float
    share: float | None
    bandwidth: float | None


class ResourcesSection(TypedDict, total=False):
    """CPU, memory and threads; the benchmark's own threads not through the device."""

    cpu_seconds: float
    cpu_seconds_per_element: float | None
    cpus_busy: float | None
    threads_waiting: float | None
    feeder_cpu_seconds: float
    consumer_cpu_seconds: float
    peak_rss_bytes: int
    threads: int


class CalibrationSection(TypedDict):
    """The same path with next to nothing to do."""

    bytes_per_element: float
    elements: int
    seconds_per_element: float
    ceiling_elements_per_second: float


class QueueSection(TypedDict):
    """Elements that fit in, and the fraction of the run in which each side waited."""

    capacity: int
    starved_share: float
    blocked_share: float


class LinksSection(TypedDict):
    """What each link of the way through the device did."""

    slowest: str
    dataset: dict[str, Any] | None
    infeed: dict[str, Any]
    program: dict[str, Any]
    outfeed: dict[str, Any]
    host: dict[str, Any]


class DeviceSection(TypedDict):
    """How busy a device with a step time was kept."""

    step_seconds: float | None
    preset: str | None
    bar: float | None
    au: float | None
    starved_time_share: float
    starved_steps_share: float
    blocked_time_share: float
    overhead_time_share: float | None
    overhead_seconds_per_step: float | None
    free_source_au: float | None
    verdict: str
    period_seconds: float | None
    steps: int
    seconds: float
    queue_depth: list[dict[str, Any]]
    results: dict[str, Any] | None
    knee: list[dict[str, Any]] | None
    knee_deviation: dict[str, float] | None
    knee_tolerance: float | None


class ColdSection(TypedDict):
    """Files that were dropped from the page cache."""

    files: int
    bytes: int
    drops: int
    cached_bytes_before: int
    cached_bytes_left: int
    unknown_files: int
    paths: list[str]


class ServiceSection(TypedDict, total=False):
    """What the processes of tf.data service did; `scale` has a row for each number."""

    service: str
    sharding: str
    compression: str
    workers: list[dict[str, Any]] | None
    dispatcher: dict[str, Any] | None
    produced_elements: int | None
    delivered_elements: int
    deaths: list[dict[str, Any]]
    scale: list[dict[str, Any]]


class ProcessesSection(TypedDict):
    """The rate of each process, of all, and of one alone."""

    count: int
    seconds: float
    elements_per_second: float
    interval: Interval
    each: list[dict[str, Any]]
    alone: dict[str, Any] | None
    efficiency: float | None


class WarningSection(TypedDict):
    """What to know before a figure is quoted."""

    code: str
    message: str


class ErrorSection(TypedDict):
    """What the dataset failed with; `element` counts from 0."""

    type: str
    message: str
    element: int
