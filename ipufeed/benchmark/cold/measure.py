"""Measures with a cold page cache: the files are dropped before the run and between passes.

    find files --> drop --> check --> measure a pass --> drop --> check --> ...
                   fadvise  mincore                               not measured

Files that the kernel kept in memory are reported. The time of dropping between passes is
in no figure.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ipufeed.benchmark.cold import page_cache
from ipufeed.benchmark.cold.files import dataset_files
from ipufeed.benchmark.measuring.measure import measure_run
from ipufeed.benchmark.measuring.run import Progress, RawMeasurement, run_measurement
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import ColdSection, WarningSection
from ipufeed.benchmark.result.settings import Settings
from ipufeed.errors import MeasurementInterrupted, SourceError
from ipufeed.render.terminal_text import printable
from ipufeed.tf_types import Dataset

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording

SHOWN = 20
# The run was not cold if more than this fraction of the files' bytes stayed in memory.
WARM_FRACTION = 0.01
# Counters of the whole measurement that are sums over its passes.
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
class ColdFiles:
    """The files, and how much of them is in the page cache."""

    files: list[str]
    drops: int = 0
    bytes: int = 0
    cached_before: int = 0
    # The most after any drop.
    cached_left: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)
    warm: list[str] = dataclasses.field(default_factory=list)

    def drop(self) -> None:
        """Drops all files from the page cache, and counts the bytes that stay in it.

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
    """Measures `dataset` as measure() does, with its files dropped from the page cache.

    Args:
        dataset: As for measure().
        settings: With `passes` the files are dropped before each pass, else once.
        name: As for measure().
        on_progress: As for measure().
        files: Names or patterns of the files to drop. Default: see dataset_files().
        recording: As for measure().

    Returns:
        The result, with `cold`.

    Raises:
        SourceError: No files are found, or one cannot be opened.
        And the errors of measure().

    Threads: one at a time.
    """
    settings = Settings() if settings is None else settings
    cold = ColdFiles(_find_files(dataset, list(files)))

    def run(
        dataset: Dataset,
        attributes: dict[str, Any],
        on_progress: Callable[[Progress], None] | None = None,
    ) -> tuple[RawMeasurement | None, BaseException | None]:
        return _run_passes(dataset, attributes, on_progress, cold.drop)

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
            _with_cold(interruption.result, cold)
        ) from interruption
    return _with_cold(result, cold)


def _find_files(dataset: Dataset, patterns: list[str]) -> list[str]:
    try:
        files = dataset_files(dataset, patterns)
    except tf.errors.OpError as error:
        raise SourceError(
            f"--cold cannot find the files of the dataset ({error.message}). Name them: "
            "--cold-files 'data/*.tfrecord'."
        ) from error
    if files:
        return files
    if patterns:
        raise SourceError(f"--cold-files {' '.join(patterns)} matches no file.")
    raise SourceError(
        "--cold finds no files in the graph of the pipeline. If its Python functions open "
        "files, name them: --cold-files 'data/*.tfrecord'."
    )


def _run_passes(
    dataset: Dataset,
    attributes: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
    prepare: Callable[[], None],
) -> tuple[RawMeasurement | None, BaseException | None]:
    """Calls run_measurement once for each pass, and `prepare` before each."""
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
            dataset, attributes, _with_earlier(on_progress, runs)
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
    return (_join(runs) if runs else None), interruption


def _with_earlier(
    on_progress: Callable[[Progress], None] | None, runs: list[RawMeasurement]
) -> Callable[[Progress], None] | None:
    """Returns a callback that adds the earlier passes to the progress."""
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


def _join(runs: list[RawMeasurement]) -> RawMeasurement:
    """Returns the passes as one run, without the time between them."""
    whole = runs[0]
    for raw in runs[1:]:
        first, counters = whole.counters, raw.counters
        back = counters["requested_ns"] - first["finished_ns"]
        epochs, stamps = raw.epochs.copy(), raw.stamps - back
        epochs[:, 3:] -= back
        marks = raw.marks.copy()
        marks[:, 0] -= back
        if len(whole.marks):  # all columns but the time count from the beginning
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


def _with_cold(result: Result, cold: ColdFiles) -> Result:
    """Adds the section `cold` and its warnings."""
    section: ColdSection = {
        "files": len(cold.files),
        "bytes": cold.bytes,
        "drops": cold.drops,
        "cached_bytes_before": cold.cached_before,
        "cached_bytes_left": cold.cached_left,
        "unknown_files": len(cold.unknown),
        "paths": cold.files[:SHOWN],
    }
    warnings = [*_warnings_of(result, cold), *result.warnings]
    return dataclasses.replace(result, cold=section, warnings=warnings)


def _warnings_of(result: Result, cold: ColdFiles) -> list[WarningSection]:
    found = []
    if cold.bytes and cold.cached_left > WARM_FRACTION * cold.bytes:
        kinds = {page_cache.file_system(path) for path in cold.warm}
        in_memory = sorted(kind for kind in kinds if kind in page_cache.IN_MEMORY)
        why = (
            f"They are on {', '.join(in_memory)}, which is memory: copy them to a disk"
            if in_memory
            else "A process has them mapped, or their file system keeps them"
        )
        found.append(
            (
                "not_cold",
                f"{cold.cached_left / cold.bytes:.0%} of the files' bytes stayed in the "
                f"page cache (first {printable(cold.warm[0])}). {why}.",
            )
        )
    if cold.unknown:
        found.append(
            (
                "cold_unknown",
                f"It is unknown whether {len(cold.unknown)} of the files were cold (first "
                f"{printable(cold.unknown[0])}): the kernel reports it only to a file's "
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
