"""A table: Parquet row groups are read through pyarrow and cut into batches.

The table has a row per taxi ride, half a million of them: a dozen columns of numbers, one
of text, and the label. It is made up, always in the same way, and written to a temporary
folder, which goes when the process ends. Run it with

    python -m ipufeed.benchmark examples/table.py --set batch_size=4096
"""

import atexit
import pathlib
import shutil
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

ZONES = ["airport", "centre", "docks", "east", "north", "old town", "south", "west"]


def make_dataset(batch_size: int = 1024, rows: int = 500_000, row_group: int = 50_000):
    """Batches of ({column: [batch]}, label: int32 [batch]), endlessly."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="table-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "rides.parquet"
    table = make_table(rows)
    pq.write_table(table, path, row_group_size=row_group)

    def read():
        # As large as memory likes, not as the model does: what Python does per chunk
        # is then spread over many rows.
        for chunk in pq.ParquetFile(path).iter_batches(batch_size=16_384):
            columns = {
                name: column.to_numpy(zero_copy_only=False)
                for name, column in zip(chunk.schema.names, chunk.columns, strict=True)
            }
            yield columns, columns.pop("tipped")

    def prepare(columns, label):
        zone = columns.pop("zone")
        columns = {name: standardise(column) for name, column in columns.items()}
        return columns | {"zone": tf.strings.to_hash_bucket_fast(zone, 64)}, label

    spec = {
        field.name: tf.TensorSpec([None], dtype_of(field)) for field in table.schema
    }
    label_spec = spec.pop("tipped")
    dataset = tf.data.Dataset.from_generator(read, output_signature=(spec, label_spec))
    dataset = dataset.repeat().rebatch(batch_size)
    dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, name="prepare")
    return dataset.prefetch(tf.data.AUTOTUNE)


def standardise(column):
    """To mean 0 and deviation 1 within the batch."""
    mean, variance = tf.nn.moments(column, axes=[0])
    return (column - mean) * tf.math.rsqrt(variance + 1e-6)


def dtype_of(field: pa.Field) -> tf.DType:
    """The tensor's type for a column of the table."""
    if pa.types.is_dictionary(field.type):  # how Parquet stores text that repeats
        return tf.string
    return tf.as_dtype(field.type.to_pandas_dtype())


def make_table(rows: int) -> pa.Table:
    """Rides whose fare, speed and tip hang together as they do in life."""
    random = np.random.default_rng(0)
    hour = random.integers(24, size=rows)
    distance = random.lognormal(1.0, 0.8, rows)
    speed = random.normal(28, 6, rows).clip(5) - 8 * ((hour > 6) & (hour < 20))
    minutes = 60 * distance / speed.clip(4)
    fare = 3.5 + 1.8 * distance + 0.4 * minutes
    latitude, longitude = random.normal(0, 0.05, (2, rows))
    columns = {
        "hour": hour,
        "weekday": random.integers(7, size=rows),
        "passengers": random.integers(1, 6, size=rows),
        "distance": distance,
        "speed": speed,
        "minutes": minutes,
        "fare": fare,
        "tolls": random.choice([0.0, 2.5, 6.0], rows, p=[0.9, 0.07, 0.03]),
        "temperature": random.normal(14, 9, rows),
        "rain": random.exponential(0.6, rows) * (random.random(rows) < 0.2),
        "latitude": latitude,
        "longitude": longitude,
    }
    table = {name: column.astype(np.float32) for name, column in columns.items()}
    zones = np.hypot(latitude, longitude) * 60
    zone = pa.DictionaryArray.from_arrays(
        zones.astype(np.int32).clip(0, len(ZONES) - 1), ZONES
    )
    tipped = random.random(rows) < 1 / (1 + np.exp(2 - fare / 12))
    return pa.table({**table, "zone": zone, "tipped": tipped.astype(np.int32)})
