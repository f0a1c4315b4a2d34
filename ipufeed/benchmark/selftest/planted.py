"""Datasets of known rate, length, bytes and error, and times from the standard library."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipufeed.tf_types import Dataset, Tensor

RECORD_BYTES = 100_000


def sleeping(seconds: float) -> Dataset:
    """Returns an infinite dataset that sleeps for each element of 64 bytes."""
    from tensorflow.python.data.experimental.ops import testing

    element = tf.data.Dataset.from_tensors(tf.zeros([16], tf.float32))
    found: Dataset = element.repeat().apply(testing.sleep(round(seconds * 1e6)))
    return found


def true_period(seconds: float, count: int) -> float:
    """Returns the real length of a sleep on this machine: the kernel ends it a little late.

    The median, from the standard library, so that the benchmark does not check itself.
    """
    lengths = []
    for _ in range(count):
        start = time.perf_counter()
        time.sleep(seconds)
        lengths.append(time.perf_counter() - start)
    return float(np.median(lengths))


def counted(elements: int) -> Dataset:
    """Returns a dataset of `elements` elements of 4 bytes."""
    numbers: Dataset = tf.data.Dataset.range(elements)
    return numbers.map(lambda x: tf.cast(x, tf.int32))


def failing(at: int) -> Dataset:
    """Returns a dataset that raises InvalidArgumentError at the element `at`."""

    def check(x: Tensor) -> Tensor:
        bad = tf.constant(at, tf.int64)
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, bad)]):
            return tf.cast(x, tf.int32)

    numbers: Dataset = tf.data.Dataset.range(10 * at)
    return numbers.map(check)


class Records:
    """A temporary TFRecord file of random records, which `close` removes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="ipufeed-")
        self.path = str(Path(self._folder.name) / "records.tfrecord")
        random = np.random.default_rng(0)
        with tf.io.TFRecordWriter(self.path) as writer:
            for _ in range(count):
                writer.write(random.bytes(RECORD_BYTES))

    def dataset(self) -> Dataset:
        """Returns a dataset of all records."""
        found: Dataset = tf.data.TFRecordDataset(self.path)
        return found

    def cpu_seconds_to_read(self, passes: int) -> float:
        """Returns the CPU time of reading in TensorFlow's own loop.

        The loop adds up the records' lengths, so that each has to be read; ten at a time,
        since the cost of an iteration itself is not reading.
        """
        records = tf.data.TFRecordDataset(self.path).repeat(passes).batch(10)
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
        """Returns the time until the record after the first `records` arrives."""
        dataset = tf.data.TFRecordDataset(self.path).skip(records)
        start = time.perf_counter()
        next(iter(dataset))
        return time.perf_counter() - start

    def close(self) -> None:
        """Removes the file and its folder."""
        self._folder.cleanup()


def stage_pipeline(costs_ms: dict[str, float]) -> Dataset:
    """Returns an infinite pipeline of maps with these names and milliseconds, in order."""
    element: Dataset = tf.data.Dataset.from_tensors(tf.zeros([16], tf.float32))
    dataset = element.repeat()
    for name, cost in costs_ms.items():
        dataset = dataset.map(_sleeping_map(cost / 1e3), name=name)
    return dataset


def true_stage_period(cost_ms: float, count: int = 20) -> float:
    """Returns the seconds that an element takes in a stage of such a pipeline, alone.

    By the clock around TensorFlow's own loop, so that the benchmark does not check itself:
    the call of the stage's function is included, the start of the loop is not. The least
    of several times, to which the load of others adds.
    """
    stage = stage_pipeline({"alone": cost_ms})

    def seconds(elements: int) -> float:
        dataset = stage.take(elements)
        start = time.perf_counter()
        dataset.reduce(tf.constant(0), lambda total, _: total + 1).numpy()
        return time.perf_counter() - start

    one, more = (min(seconds(n) for _ in range(4)) for n in (1, 1 + count))
    return (more - one) / count


def _sleeping_map(seconds: float) -> Callable[[Tensor], Tensor]:
    """Returns a map's function that sleeps, without the GIL."""

    def sleep(value: NDArray[np.float32]) -> NDArray[np.float32]:
        time.sleep(seconds)
        return value

    def run(value: Tensor) -> Tensor:
        slept = tf.numpy_function(sleep, [value], tf.float32)
        slept.set_shape(value.shape)
        return slept

    return run
