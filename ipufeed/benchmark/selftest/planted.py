"""Datasets whose answers are known, and a clock that is not ours."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RECORD_BYTES = 100_000


def sleeping(seconds: float) -> Any:
    """An endless dataset that sleeps so long for each element of 64 bytes."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    element = tf.data.Dataset.from_tensors(tf.zeros([16], tf.float32))
    return element.repeat().apply(testing.sleep(round(seconds * 1e6)))


def true_period(seconds: float, count: int) -> float:
    """What a sleep of so long takes on this machine: the kernel ends it a little late.

    The median, from the standard library, so that the benchmark does not judge itself.
    """
    lengths = []
    for _ in range(count):
        start = time.perf_counter()
        time.sleep(seconds)
        lengths.append(time.perf_counter() - start)
    return float(np.median(lengths))


def counted(elements: int) -> Any:
    """A dataset of `elements` elements of 4 bytes."""
    import tensorflow as tf

    return tf.data.Dataset.range(elements).map(lambda x: tf.cast(x, tf.int32))


def failing(at: int) -> Any:
    """A dataset that raises InvalidArgumentError at the element `at`."""
    import tensorflow as tf

    def check(x: Any) -> Any:
        bad = tf.constant(at, tf.int64)
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, bad)]):
            return tf.cast(x, tf.int32)

    return tf.data.Dataset.range(10 * at).map(check)


class Records:
    """A TFRecord file of random records, for as long as the object lives."""

    def __init__(self, count: int) -> None:
        import tensorflow as tf

        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="ipufeed-")
        self.path = str(Path(self._folder.name) / "records.tfrecord")
        random = np.random.default_rng(0)
        with tf.io.TFRecordWriter(self.path) as writer:
            for _ in range(count):
                writer.write(random.bytes(RECORD_BYTES))

    def dataset(self) -> Any:
        """Every record, once."""
        import tensorflow as tf

        return tf.data.TFRecordDataset(self.path)

    def cpu_seconds_to_read(self, passes: int) -> float:
        """CPU time, by TensorFlow's own loop and the standard library's clock.

        The loop adds up the records' lengths, so that each has to be there; ten at a time,
        since the cost of an iteration itself is not reading.
        """
        import tensorflow as tf

        records = self.dataset().repeat(passes).batch(10)
        start = time.process_time()
        total = records.reduce(
            np.int64(0),
            lambda total, some: (
                total + tf.reduce_sum(tf.cast(tf.strings.length(some), tf.int64))
            ),
        )
        seconds = time.process_time() - start
        assert int(total) == passes * self.count * RECORD_BYTES
        return seconds

    def seconds_to_skip(self, records: int) -> float:
        """Until the record behind the first `records` is there."""
        dataset = self.dataset().skip(records)
        start = time.perf_counter()
        next(iter(dataset))
        return time.perf_counter() - start

    def close(self) -> None:
        """Removes the file."""
        self._folder.cleanup()


def stage_pipeline(costs_ms: dict[str, float]) -> Any:
    """An endless pipeline of maps in that order, each named and as slow as it says."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors(tf.zeros([16], tf.float32)).repeat()
    for name, cost in costs_ms.items():
        dataset = dataset.map(sleeping_map(cost / 1e3), name=name)
    return dataset


def sleeping_map(seconds: float) -> Any:
    """A map's function that sleeps, without the GIL."""
    import tensorflow as tf

    def rest(value: Any) -> Any:
        time.sleep(seconds)
        return value

    def run(value: Any) -> Any:
        slept = tf.numpy_function(rest, [value], tf.float32)
        slept.set_shape(value.shape)
        return slept

    return run
