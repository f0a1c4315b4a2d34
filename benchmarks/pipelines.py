"""The datasets that the benchmarks measure, in the three sizes that the targets name."""

import functools
import tempfile
from pathlib import Path
from typing import Any


def tiny() -> Any:
    """Returns elements of 4 x 4 float32, 64 bytes: their cost is the iteration itself."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(tf.zeros([4, 4])).repeat()


def converted(shape: list[int]) -> Any:
    """Returns uint8 images, converted to floats, with labels: work like that of a copy."""
    import tensorflow as tf

    images = tf.zeros(shape, tf.uint8)
    labels = tf.zeros(shape[:1], tf.int32)
    dataset = tf.data.Dataset.from_tensors((images, labels)).repeat()
    return dataset.map(lambda x, y: (tf.cast(x, tf.float32) * (1 / 255), y))


def medium() -> Any:
    """Returns elements of 32 x 28 x 28 x 1 float32 and 32 labels: 100,480 bytes."""
    return converted([32, 28, 28, 1])


def large() -> Any:
    """Returns elements of 32 x 224 x 224 x 3 float32 and 32 labels: 19.3 MB."""
    return converted([32, 224, 224, 3])


@functools.cache
def records_folder(records: int, record_bytes: int) -> tempfile.TemporaryDirectory:
    """Returns a folder with one TFRecord file; it is deleted at the process's end."""
    import numpy as np
    import tensorflow as tf

    folder = tempfile.TemporaryDirectory(prefix="ipufeed-")
    payload = np.random.default_rng(0).bytes(record_bytes)
    with tf.io.TFRecordWriter(str(Path(folder.name) / "data.tfrecord")) as writer:
        for _ in range(records):
            writer.write(payload)
    return folder


def records(count: int = 2000, record_bytes: int = 100_000) -> Any:
    """Returns records of 100 KB, read from a file that is in the page cache."""
    import tensorflow as tf

    path = Path(records_folder(count, record_bytes).name) / "data.tfrecord"
    return tf.data.TFRecordDataset(str(path)).repeat()
