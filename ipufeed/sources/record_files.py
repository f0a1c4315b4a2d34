"""TFRecord files as a dataset, checked before they are read."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ipufeed.checks import flags_checked
from ipufeed.sources.files import Files, list_files, parallelism, shard_of
from ipufeed.sources.named_errors import name_errors
from ipufeed.sources.record_check import RecordReport, check_tfrecord, compression_of
from ipufeed.tf_types import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

# Open files at a time: enough for AUTOTUNE to choose from.
MOST_OPEN = 16


@flags_checked
def tfrecord(
    files: Files,
    *,
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
    check: bool = True,
    compression: str | None = None,
) -> tf.data.Dataset:
    """Returns the records of TFRecord files, as scalar strings.

    Args:
        files: A path, a pattern, or a list of them; see docs/sources.md for the order.
        shard: (count, index): only every count-th file, from number index on. Default: all.
        parallel: Files that are read at a time, with their records interleaved; 1 reads one
            file after the other. Default: up to 16, and AUTOTUNE for the threads. Each
            takes a buffer of 256 KiB.
        check: Scan all headers first (check_tfrecord), and raise at once if a file is
            damaged. The dataset then has a cardinality, and fails if the files have another
            number of records when they are read. docs/sources.md has the cost. Default:
            True.
        compression: `GZIP`, `ZLIB` or None. With `check` such files are decompressed twice.

    Returns:
        A tf.data.Dataset of tf.string [], always in the same order. Stages: `files`,
        `read`. An error of reading, such as a record that does not match its CRC, begins
        with the file's path.

    Raises:
        TypeError, ValueError: An argument is of another type, or out of range.
        SourceError: A file does not exist, or there are fewer files than shards.
        DamagedFileError: With `check`: a file is damaged.
    """
    import tensorflow as tf

    paths = list_files(files, "TFRecord")
    paths = shard_of(
        paths,
        shard,
        "files",
        "Write the records into more files, or take every n-th record with "
        "tfrecord(files).shard(count, index).",
    )
    compression = compression_of(compression)
    calls = parallelism(parallel)
    records = None
    if check:
        records = sum(report.records for report in _check_all(paths, compression))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def read(path: Tensor) -> tf.data.Dataset:
        file = tf.data.TFRecordDataset(path, compression or "", name="read_file")
        return name_errors(file, path)

    # Several files are read inside a function, so that an error can name its file, and
    # tf.data can shard by file.
    dataset = tf.data.Dataset.from_tensor_slices(paths, name="files")
    if len(paths) == 1:
        dataset = tf.data.TFRecordDataset(paths, compression or "", name="read")
        dataset = name_errors(dataset, paths[0])
    elif calls == 1:
        dataset = dataset.flat_map(read, name="read")
    else:
        open_files = MOST_OPEN if calls == tf.data.AUTOTUNE else calls
        dataset = dataset.interleave(
            read,
            cycle_length=min(open_files, len(paths)),
            num_parallel_calls=min(calls, len(paths)),
            deterministic=True,
            name="read",
        )
    if records is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(records))
    return dataset


def _check_all(paths: list[str], compression: str | None) -> list[RecordReport]:
    """Checks the files in parallel; raises the first fault in their order."""
    stop = threading.Event()
    threads = min(len(paths), len(os.sched_getaffinity(0)))

    def check(path: str) -> RecordReport:
        return check_tfrecord(path, compression=compression, stop=stop)

    with ThreadPoolExecutor(threads, "ipufeed_check") as pool:
        reports = []
        try:
            for report in pool.map(check, paths):
                report.raise_for_fault()
                reports.append(report)
        finally:  # also after Ctrl-C: does not wait for the other files
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return reports
