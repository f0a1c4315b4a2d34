"""python -m benchmarks.sources: what reading costs, next to hand-written loops.

Rows and records per second of wall time, the median of interleaved rounds, files in the
page cache. All ways of one table deliver the same batches.
"""

import functools
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ipufeed.sources as sources

import tensorflow as tf  # isort: skip

ROUNDS = 5
ROWS, ROW_GROUP, BATCH = 1_000_000, 65_536, 1024


def make_table():
    random = np.random.default_rng(0)
    columns = {f"x{k}": random.random(ROWS, np.float32) for k in range(8)}
    vectors = pa.array(random.random(ROWS * 16, np.float32))
    columns["vector"] = pa.FixedSizeListArray.from_arrays(vectors, 16)
    columns["text"] = [f"row number {number}" for number in range(ROWS)]
    return pa.table(columns)


def generated(path, columns):
    """Returns from_generator over iter_batches, as most programs read Parquet."""
    file = pq.ParquetFile(path)

    def batches():
        for batch in file.iter_batches(BATCH, columns=columns):
            yield {
                name: np.stack(column.to_numpy(zero_copy_only=False))
                if name == "vector"
                else column.to_numpy(zero_copy_only=False)
                for name, column in zip(columns, batch.columns, strict=True)
            }

    spec = sources.parquet(path, columns=columns).element_spec
    return tf.data.Dataset.from_generator(batches, output_signature=spec)


def drain(dataset):
    for _ in dataset:
        pass


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(title, ways, amount, unit):
    """Prints amount per second of each way, the rounds interleaved."""
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, work in ways.items():
            times[name].append(seconds(work))
    print(title)
    for name, values in times.items():
        low, middle, high = (amount / q for q in np.percentile(values, [75, 50, 25]))
        print(f"  {name:<34} {middle:10.3g} {unit}  [{low:.3g}, {high:.3g}]")
    first, *rest = (statistics.median(values) for values in times.values())
    if rest:
        print(f"  {'the first against the last':<34} {rest[-1] / first:10.3g} times")


def records(folder):
    for size, count in ((20, 1_000_000), (1_000, 200_000), (100_000, 5_000)):
        path = str(folder / f"{size}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(count):
                writer.write(os.urandom(16) * (size // 16))
        compare(
            f"TFRecord, {count:,} records of {size:,} bytes",
            {
                "check_tfrecord": functools.partial(sources.check_tfrecord, path),
                "check_tfrecord(data=True)": functools.partial(
                    sources.check_tfrecord, path, data=True
                ),
                "TFRecordDataset, natively": lambda path=path: drain(
                    tf.data.TFRecordDataset(path).batch(1000)
                ),
            },
            count,
            "records/s",
        )


def tables(folder):
    path = str(folder / "a.parquet")
    ipc = str(folder / "a.arrow")
    table = make_table()
    pq.write_table(table, path, row_group_size=ROW_GROUP)
    with pa.OSFile(ipc, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=ROW_GROUP)
    numbers = [f"x{k}" for k in range(8)]
    for title, columns in (
        ("8 columns of float32", numbers),
        ("a vector of 16 float32", ["vector"]),
        ("a column of text", ["text"]),
    ):
        datasets = {
            "sources.parquet": sources.parquet(path, columns=columns),
            "sources.parquet(parallel=1)": sources.parquet(
                path, columns=columns, parallel=1
            ),
            "sources.arrow_ipc": sources.arrow_ipc(ipc, columns=columns),
            "from_generator, iter_batches": generated(path, columns),
        }
        ways = {
            name: functools.partial(drain, dataset)
            for name, dataset in datasets.items()
        }
        compare(f"{title}, batches of {BATCH:,}", ways, ROWS, "rows/s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        records(Path(name))
        tables(Path(name))
