"""What the sources cost, next to what they replace, on the same files in one run."""

import operator
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import sources as compared
from benchmarks.targets import Row, comparison

RECORDS, RECORD_BYTES = 200_000, 1000


def rows(quick: bool) -> list[Row]:
    """Measures checking records against reading them, row groups against a generator."""
    repeats = 5 if quick else 15
    with tempfile.TemporaryDirectory() as name:
        return [checking(Path(name), repeats), reading(Path(name), repeats)]


def interleaved(repeats, ours, other):
    """Returns the seconds of each, measured alternately."""
    times = ([], [])
    for work in (ours, other):  # what is paid once
        work()
    for _ in range(repeats):
        for work, values in zip((ours, other), times, strict=True):
            start = time.perf_counter()
            work()
            values.append(time.perf_counter() - start)
    return times


def checking(folder: Path, repeats: int) -> Row:
    import tensorflow as tf

    from ipufeed.sources import check_tfrecord

    path = str(folder / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(RECORDS):
            writer.write(b"x" * RECORD_BYTES)
    dataset = tf.data.TFRecordDataset(path).batch(1000)
    ours, other = interleaved(
        repeats, lambda: check_tfrecord(path), lambda: compared.drain(dataset)
    )
    return comparison(
        "check_tfrecord against reading the records (1 kB each), natively",
        "at least",
        3,
        "times as fast",
        lambda a, b: operator.truediv(b, a),
        ours,
        other,
    )


def reading(folder: Path, repeats: int) -> Row:
    from ipufeed import sources

    path = str(folder / "a.parquet")
    pq.write_table(compared.make_table(), path, row_group_size=compared.ROW_GROUP)
    columns = [f"x{k}" for k in range(8)]
    dataset = sources.parquet(path, columns=columns)
    generated = compared.generated(path, columns)
    ours, other = interleaved(
        repeats, lambda: compared.drain(dataset), lambda: compared.drain(generated)
    )
    return comparison(
        "sources.parquet against from_generator over iter_batches, 8 columns",
        "at least",
        2,
        "times as fast",
        lambda a, b: operator.truediv(b, a),
        ours,
        other,
    )
