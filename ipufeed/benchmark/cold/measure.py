"""A run on a cold page cache: its files are dropped before it, and between passes.

    find files --> drop --> look --> measure a pass --> drop --> look --> ...
                   fadvise  mincore  as always                            not measured

What the kernel would not drop is reported, not hidden. The time between passes that
dropping takes is in no figure.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ipufeed.benchmark.cold import page_cache
from ipufeed.benchmark.cold.files import dataset_files
from ipufeed.benchmark.measuring.measure import measure_run
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement, run_measurement
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import ColdSection, WarningSection
from ipufeed.benchmark.result.settings import Settings
from ipufeed.errors import MeasurementInterrupted, SourceError
from ipufeed.render.terminal import printable
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

SHOWN = 20
# More of the files' bytes than this still in memory, and the run was not cold.
WARM_SHARE = 0.01
# What one run after the other adds up.
SUMS = (
    "elements",
    "bytes",
    "opaque",
    "copy_ns",
    "starved_ns",
    "blocked_ns",
    "consumer_parks",
    "feeder_parks",
    "cpu_ns",
    "cpu_wall_ns",
    "consumer_cpu_ns",
    "feeder_cpu_ns",
)


@dataclasses.dataclass
class Cache:
    """The files, and what became of them."""

    files: list[str]
    drops: int = 0
    bytes: int = 0
    cached_before: int = 0
    # The most that was left after any drop: the worst case counts.
    cached_left: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)
    warm: list[str] = dataclasses.field(default_factory=list)

    def drop(self) -> None:
        """Drops all files, and looks at what is left.

        Raises:
            SourceError: A file is gone or cannot be opened.
        """
        total = before = left = 0
        unknown, warm = [], []
        for path in self.files:
            try:
                was = page_cache.resident(path)
                page_cache.drop(path)
                remains = page_cache.resident(path)
                total += os.path.getsize(path)
            except OSError as error:
                raise SourceError(
                    f"--cold cannot drop {path}: {error.strerror or error}. Name the "
                    "files that can be opened with --cold-files."
                ) from error
            if was is None or remains is None:
                unknown.append(path)
                continue
            before += was
            left += remains
            if remains:
                warm.append(path)
        if self.drops == 0:
            self.cached_before = before
        self.bytes, self.unknown = total, unknown
        if left >= self.cached_left:
            self.cached_left, self.warm = left, warm
        self.drops += 1


def measure_cold(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    files: Iterable[str] = (),
    recording: Recording | None = None,
) -> Result:
    """Measures `dataset` as measure() does, its files out of the page cache.

    Args:
        dataset: As for measure().
        settings: With `passes` the files are dropped before each of them; else once.
        name: As for measure().
        on_progress: As for measure().
        files: Names or patterns of the files to drop. Default: those that the pipeline
            names, and those of ipufeed.sources.
        recording: As for measure().

    Returns:
        The result, with `cold`.

    Raises:
        SourceError: No files are found, or one cannot be opened.
        And all that measure() raises.

    Threads: one at a time.
    """
    settings = Settings() if settings is None else settings
    cache = Cache(find_files(dataset, list(files)))

    def run(
        dataset: Dataset,
        attributes: dict[str, Any],
        on_progress: Callable[[Progress], None] | None = None,
    ) -> tuple[RawMeasurement | None, BaseException | None]:
        return run_passes(dataset, attributes, on_progress, cache.drop)

    try:
        result = measure_run(
            run,
            dataset,
            settings,
            name=name,
            on_progress=on_progress,
            recording=recording,
        )
    except MeasurementInterrupted as interruption:
        if interruption.result is None:
            raise
        raise MeasurementInterrupted(
            with_cold(interruption.result, cache)
        ) from interruption
    return with_cold(result, cache)


def find_files(dataset: Dataset, patterns: list[str]) -> list[str]:
    """The files to drop.

    Raises:
        SourceError: There are none.
    """
    import tensorflow as tf

    try:
        files = dataset_files(dataset, patterns)
    except tf.errors.OpError as error:
        raise SourceError(
            f"--cold cannot see which files the dataset reads ({error.message}). Name "
            "them: --cold-files 'data/*.tfrecord'."
        ) from error
    if files:
        return files
    if patterns:
        raise SourceError(f"--cold-files {' '.join(patterns)} fits no file.")
    raise SourceError(
        "--cold finds no files in the pipeline: its Python functions may open some, which "
        "cannot be seen. Name them: --cold-files 'data/*.tfrecord'."
    )


def run_passes(
    dataset: Dataset,
    attributes: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
    prepare: Callable[[], None],
) -> tuple[RawMeasurement | None, BaseException | None]:
    """run_measurement with `prepare` before it, and between its passes."""
    passes = attributes["passes"] if attributes["epoch_per_pass"] else 1
    attributes = {**attributes, "passes": attributes["passes"] if passes == 1 else 1}
    limit = attributes["seconds_ns"]
    runs: list[RawMeasurement] = []
    interruption: BaseException | None = None
    for _ in range(passes):
        try:
            prepare()
        except KeyboardInterrupt as error:
            interruption = error
            break
        raw, interruption = run_measurement(
            dataset, attributes, moved_on(on_progress, runs)
        )
        if raw is not None:
            runs.append(raw)
        if interruption is not None or raw is None or raw.failure is not None:
            break
        if raw.counters["stopped"] or not raw.counters["elements"]:
            break
        if limit:
            used = sum(
                each.counters["last_ns"] - each.counters["first_ns"] for each in runs
            )
            if used >= limit:
                break
            attributes["seconds_ns"] = limit - used
    return (join(runs) if runs else None), interruption


def moved_on(
    on_progress: Callable[[Progress], None] | None, runs: list[RawMeasurement]
) -> Callable[[Progress], None] | None:
    """Progress that counts earlier passes, too."""
    if on_progress is None or not runs:
        return on_progress
    elements = sum(raw.counters["elements"] for raw in runs)
    size = sum(raw.counters["bytes"] for raw in runs)
    first, epochs = runs[0].counters["first_ns"], len(runs)

    def report(progress: Progress) -> None:
        on_progress(
            Progress(
                progress.elements + elements,
                progress.bytes + size,
                progress.epochs + epochs,
                first,
            )
        )

    return report


def join(runs: list[RawMeasurement]) -> RawMeasurement:
    """The runs as one, without the time between them."""
    whole = runs[0]
    for raw in runs[1:]:
        first, counters = whole.counters, raw.counters
        back = counters["requested_ns"] - first["finished_ns"]
        epochs, stamps = raw.epochs.copy(), raw.stamps - back
        epochs[:, 3:] -= back
        marks = raw.marks.copy()
        marks[:, 0] -= back
        if len(whole.marks):  # the rest of a row counts from the beginning
            marks[:, 1:] += whole.marks[-1, 1:]
        joined = {name: first[name] + counters[name] for name in SUMS}
        # Until the first element of a later pass the consumer's wait is not counted.
        joined["starved_ns"] += counters["steady_ns"] - counters["requested_ns"]
        moved = {
            name: (counters[name] or counters["requested_ns"]) - back
            for name in ("last_ns", "finished_ns")
        }
        rest = {name: counters[name] for name in ("ended", "stopped", "capacity")}
        same = min(first["same_leading_dimension"], counters["same_leading_dimension"])
        most = max(first["epochs_per_entry"], counters["epochs_per_entry"])
        whole = RawMeasurement(
            {
                **first,
                **joined,
                **moved,
                **rest,
                "same_leading_dimension": same,
                "epochs_per_entry": most,
            },
            np.concatenate([whole.epochs, epochs]),
            np.concatenate([whole.stamps, stamps]),
            raw.failure,
            np.concatenate([whole.marks, marks]),
        )
    return whole


def with_cold(result: Result, cache: Cache) -> Result:
    """The result with what became of the files, and the warnings about it."""
    section: ColdSection = {
        "files": len(cache.files),
        "bytes": cache.bytes,
        "drops": cache.drops,
        "cached_bytes_before": cache.cached_before,
        "cached_bytes_left": cache.cached_left,
        "unknown_files": len(cache.unknown),
        "paths": cache.files[:SHOWN],
    }
    warnings = [*cold_warnings(result, cache), *result.warnings]
    return dataclasses.replace(result, cold=section, warnings=warnings)


def cold_warnings(result: Result, cache: Cache) -> list[WarningSection]:
    """What to know before such a rate is quoted as that of cold files."""
    found = []
    if cache.bytes and cache.cached_left > WARM_SHARE * cache.bytes:
        kinds = {page_cache.file_system(path) for path in cache.warm}
        in_memory = sorted(kind for kind in kinds if kind in page_cache.IN_MEMORY)
        why = (
            f"They are on {', '.join(in_memory)}, which is memory: copy them to a disk"
            if in_memory
            else "A process has them mapped, or their file system keeps them"
        )
        found.append(
            (
                "not_cold",
                f"{cache.cached_left / cache.bytes:.0%} of the files' bytes stayed in the "
                f"page cache (first {printable(cache.warm[0])}). {why}.",
            )
        )
    if cache.unknown:
        found.append(
            (
                "cold_unknown",
                f"Whether {len(cache.unknown)} of the files were cold is unknown (first "
                f"{printable(cache.unknown[0])}): the kernel reports it only to a file's "
                "owner and to users with write permission.",
            )
        )
    if result.dataset["cardinality"] == "infinite":
        found.append(
            (
                "cold_once",
                "The dataset repeats itself, and its files were cold only when they were "
                "first read. Take repeat() out, and measure passes: --passes N.",
            )
        )
    return [{"code": code, "message": message} for code, message in found]
