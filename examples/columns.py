"""Columns: Parquet row groups in parallel, four columns of six, vectors as tensors.

The table of sensor readings is made up, and written to a temporary folder, which goes
when the process ends. Run it with

    python -m ipufeed.benchmark examples/columns.py --set batch_size=4096
"""

import atexit
import pathlib
import shutil
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from ipufeed import sources

COLUMNS = ["spectrum", "pressure", "station", "fault"]


def make_dataset(batch_size: int = 1024, rows: int = 200_000, row_group: int = 20_000):
    """Batches of ({column: [batch, ...]}, fault: bool [batch]), endlessly."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="columns-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "readings.parquet"
    pq.write_table(make_table(rows), path, row_group_size=row_group)

    def prepare(columns):
        fault = columns.pop("fault")
        station = tf.strings.to_hash_bucket_fast(columns["station"], 32)
        return columns | {"station": station}, fault

    dataset = sources.parquet(
        path, columns=COLUMNS, batch_size=batch_size, drop_remainder=True, nulls="drop"
    )
    dataset = dataset.repeat().map(prepare, name="prepare")
    return dataset.prefetch(tf.data.AUTOTUNE)


def make_table(rows: int) -> pa.Table:
    """Readings of a few stations; every hundredth has no pressure."""
    random = np.random.default_rng(0)
    spectra = pa.array(random.random(rows * 8, np.float32))
    return pa.table(
        {
            "time": pa.array(np.arange(rows), pa.timestamp("s")),
            "spectrum": pa.FixedSizeListArray.from_arrays(spectra, 8),
            "pressure": pa.array(random.random(rows), mask=np.arange(rows) % 100 == 0),
            "station": [f"station {number % 29}" for number in range(rows)],
            "note": ["nothing to report"] * rows,
            "fault": random.random(rows) < 0.01,
        }
    )
