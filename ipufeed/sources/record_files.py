"""TFRecord files as a dataset, checked before they are read."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.sources.files import list_files, parallelism, shard_of
from ipufeed.sources.named_errors import name_errors
from ipufeed.sources.record_check import RecordReport, check_tfrecord, compression_of

# Files that are open at a time: enough for AUTOTUNE to choose from.
MOST_OPEN = 16


@flags_checked
def tfrecord(
    files: Any,
    *,
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
    check: bool = True,
    compression: str | None = None,
) -> Any:
    """The records of TFRecord files, as scalar strings.

    Args:
        files: A path, a pattern, or a list of them; see docs/sources.md for the order.
        shard: (count, index): only every count-th file, from number index on.
            Default: all.
        parallel: Files that are read at a time, whose records are interleaved; 1 reads one
            file after the other. Default: up to 16, and AUTOTUNE for the threads. Each
            takes a buffer of 256 KiB.
        check: Go through all headers first (check_tfrecord), and fail here and now if a
            file is damaged. The dataset then knows its cardinality, and fails if the
            files have other records when they are read. The docs have its cost.
            Default: True.
        compression: `GZIP`, `ZLIB` or None. With `check` such files are decompressed
            once more.

    Returns:
        A tf.data.Dataset of tf.string [], in an order that is always the same. Stages:
        `files`, `read`. An error of reading, such as a record whose data do not fit its
        CRC, begins with the file's path.

    Raises:
        TypeError, ValueError: An argument is of another kind, or out of range.
        SourceError: A file is not there, or there are fewer files than shards.
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
        records = sum(report.records for report in check_all(paths, compression))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def read(path: Any) -> Any:
        file = tf.data.TFRecordDataset(path, compression or "", name="read_file")
        return name_errors(file, path)

    # Several files are read within a function: there an error can name its file, and
    # tf.data finds what it shards by file.
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


def check_all(paths: list[str], compression: str | None) -> list[RecordReport]:
    """Checks the files, a few at a time; raises the first fault in their order.

    Raises:
        DamagedFileError: One is damaged.
        SourceError: One cannot be read.
    """
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
        finally:  # also at Ctrl-C: the rest is not waited for
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return reports
