"""The sections of a result, as they stand in the JSON: docs/result.md explains each.

Times are in seconds, `_ns` in nanoseconds, bandwidths in GB/s (1e9 bytes), memory in bytes.
An interval is the 95 % confidence interval, [low, high], or null where it is unknown. A
section that does not apply to a run is null.
"""

from __future__ import annotations

from typing import Any, TypedDict

from ipufeed.benchmark.result.json_text import JsonObject

Interval = list[float] | tuple[float, float] | None


class EpochSection(TypedDict):
    """An interval of the run, with the five fields of Graphcore's dataset_benchmark."""

    elements_processed: int
    total_bytes_processed: int
    time_elapsed: float
    elements_per_second: float
    bandwidth: float


class DatasetSection(TypedDict, total=False):
    """The dataset; the last three keys are present after the run.

    `loader`, the kind of a loader of another framework, is absent for tf.data datasets.
    """

    name: str
    loader: str
    element_spec: object
    cardinality: int | str
    autotune: bool
    cache: bool
    bytes_per_element: float | None
    samples_per_element: float | None
    samples_rule: str


class SettingsSection(TypedDict, total=False):
    """The bounds and options; those from `through` on of a run through the device."""

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
    """Hardware and versions; CPUs that other processes kept busy during the run."""

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
    """From the request for the iterator to the first element; the date is in UTC."""

    requested_at: str
    seconds: float
    create_iterator_seconds: float


class LeftOutSection(TypedDict):
    """A fill or a drain that is not part of the steady state."""

    what: str
    elements: int
    seconds: float
    ratio: float
    why: str


class WindowsSection(TypedDict):
    """Elements and seconds of each window of the steady state."""

    elements: list[int]
    seconds: list[float]


class SteadySection(TypedDict, total=False):
    """The rate to quote; `windows` is absent for several processes."""

    elements: int
    seconds: float
    elements_per_second: float
    samples_per_second: float | None
    bandwidth: float | None
    interval: Interval
    pass_rates: list[float] | None
    left_out: list[LeftOutSection]
    windows: WindowsSection


class HistogramSection(TypedDict):
    """Counts between edges in ns, at equal ratios."""

    edges: list[float]
    counts: list[int]


class LatencySection(TypedDict):
    """Nanoseconds between elements."""

    gaps: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: int
    histogram: HistogramSection


class MemcpySection(TypedDict):
    """The time of the copies, and its fraction of the run."""

    seconds: float
    seconds_per_element: float
    share: float | None
    bandwidth: float | None


class ResourcesSection(TypedDict, total=False):
    """CPU, memory and threads; through the device without those of the benchmark."""

    cpu_seconds: float
    cpu_seconds_per_element: float | None
    cpus_busy: float | None
    threads_waiting: float | None
    feeder_cpu_seconds: float
    consumer_cpu_seconds: float
    peak_rss_bytes: int
    threads: int


class CalibrationSection(TypedDict):
    """The null pipeline on the same path: the cost of the harness."""

    bytes_per_element: float
    elements: int
    seconds_per_element: float
    ceiling_elements_per_second: float


class QueueSection(TypedDict):
    """Capacity in elements, and the fraction of the run in which each side waited."""

    capacity: int
    starved_share: float
    blocked_share: float


class LinksSection(TypedDict):
    """Figures of each link of the path through the device."""

    slowest: str
    dataset: JsonObject | None
    infeed: JsonObject
    program: JsonObject
    outfeed: JsonObject
    host: JsonObject


class StageSection(TypedDict):
    """A step of the pipeline; what a loader's framework does not report is null."""

    name: str
    kind: str
    share: float
    seconds_per_element: float
    cpu_seconds_per_element: float | None
    parallelism: int | None
    autotuned: bool
    buffered_bytes: int | None
    ceiling_elements_per_second: float | None
    confirmed: bool
    advice: str | None
    inside: list[str]


class AdviceSection(TypedDict):
    """A change to make; `measured_...` and `held` are null without --verify."""

    code: str
    stage: str
    text: str
    predicted_elements_per_second: float | None
    predicted_gain: float | None
    measured_elements_per_second: float | None
    measured_gain: float | None
    held: bool | None
    note: str | None


class WhatIfSection(TypedDict):
    """The answer to a question of --what-if, from the model."""

    question: str
    stage: str
    elements_per_second: float
    predicted_elements_per_second: float | None
    next: str


class ComparisonSection(TypedDict):
    """The comparison with a base, with the fields of a Comparison."""

    schema_version: int
    verdict: str
    ratio: float
    interval: Interval
    verdict_interval: Interval
    smallest_detectable: float | None
    seconds_needed: float | None
    runs_needed: int | None
    unit: str
    base: JsonObject
    new: JsonObject
    notes: list[JsonObject]
    gate: JsonObject | None


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
    last_wait_seconds: float | None
    period_seconds: float | None
    steps: int
    seconds: float
    queue_depth: list[JsonObject]
    results: JsonObject | None
    knee: list[JsonObject] | None
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
    """The processes of tf.data service; `scale` has a row for each number of workers."""

    service: str
    sharding: str
    compression: str
    workers: list[JsonObject] | None
    dispatcher: JsonObject | None
    produced_elements: int | None
    delivered_elements: int
    deaths: list[JsonObject]
    scale: list[JsonObject]


class ProcessesSection(TypedDict):
    """The rate of each process, of all, and of one alone."""

    count: int
    seconds: float
    elements_per_second: float
    interval: Interval
    each: list[JsonObject]
    alone: JsonObject | None
    efficiency: float | None


# Columns of up to 500 windows of time, one list for each figure.
SeriesSection = dict[str, list[Any]]


class WarningSection(TypedDict):
    """A fact to know before a figure is quoted."""

    code: str
    message: str


class ErrorSection(TypedDict):
    """The dataset's failure; `element` counts from 0."""

    type: str
    message: str
    element: int
