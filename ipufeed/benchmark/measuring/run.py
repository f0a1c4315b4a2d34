"""Runs the measuring op, on its own thread so that Ctrl-C and progress work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipufeed import _native
from ipufeed.interruptible import run_interruptibly
from ipufeed.tf_types import Dataset

# Attributes of the op by name: see cc/measure/measurement.h.
OpAttributes = dict[str, int | bool]


@dataclass(frozen=True)
class RawMeasurement:
    """The counts of the op (cc/measure/measurement.h); times in monotonic nanoseconds.

    Attributes:
        counters: Name to number.
        epochs: int64 [n, 5]: elements, bytes, samples, start, end. Each row adds up
            counters["epochs_per_entry"] neighbouring epochs.
        stamps: int64 [n]: arrival times of the first n elements.
        failure: The dataset's tf.errors exception, or None.
        marks: int64 [n, 7]: a time, and up to it elements, bytes, ns starved, ns blocked,
            the sum of the sampled queue depths, and the number of samples.
    """

    counters: dict[str, int]
    epochs: NDArray[np.int64]
    stamps: NDArray[np.int64]
    failure: Exception | None
    marks: NDArray[np.int64] = field(default_factory=lambda: np.zeros([0, 7], np.int64))


@dataclass(frozen=True)
class Progress:
    """Counts of a running measurement; `first_ns` is 0 before the first element."""

    elements: int
    bytes: int
    epochs: int
    first_ns: int


def run_measurement(
    dataset: Dataset,
    attributes: OpAttributes,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[RawMeasurement | None, BaseException | None]:
    """Measures `dataset` with the op's `attributes`.

    Returns:
        The measurement, and the exception that ended it early (a KeyboardInterrupt, or
        that of `on_progress`), or None. The measurement is None if it was interrupted
        before the op could return one.

    Raises:
        tf.errors.OpError: The dataset could not be started.
    """
    entry = _native.entry()
    number = entry.ipufeed_run_new()

    def report() -> None:
        if on_progress is not None:
            on_progress(read_progress(entry, number))

    try:
        ended = run_interruptibly(
            lambda: _call_op(dataset, attributes, number),
            name="ipufeed_measure",
            on_poll=report,
            stop=lambda: entry.ipufeed_run_stop(number),
        )
    finally:
        entry.ipufeed_run_free(number)
    result, interruption = ended.value, ended.interruption
    if result is None:
        if interruption is None and ended.error is not None:
            raise ended.error
        return None, interruption
    assert isinstance(result, RawMeasurement)
    if on_progress is not None and interruption is None:
        counters = result.counters
        on_progress(
            Progress(
                counters["elements"],
                counters["bytes"],
                len(result.epochs),
                counters["first_ns"],
            )
        )
    return result, interruption


def read_progress(entry: ctypes.CDLL, number: int) -> Progress:
    """Returns the counts so far of a measurement. Threads: any."""
    values = (ctypes.c_int64 * 4)()
    entry.ipufeed_run_progress(number, values)
    return Progress(*values)


def _call_op(dataset: Dataset, attributes: OpAttributes, number: int) -> RawMeasurement:
    """Runs the op eagerly or, for a dataset that was built in a graph, in a Session."""
    import tensorflow as tf

    ops = _native.load()
    if not tf.is_symbolic_tensor(dataset._variant_tensor):
        # As iter() does for tf.data.experimental.enable_debug_mode().
        variant = dataset._apply_debug_options()._variant_tensor
        with tf.device("/CPU:0"):
            output = ops.ipufeed_measure_dataset(
                variant, run=tf.constant(number, tf.int64), **attributes
            )
        values = [tensor.numpy() for tensor in output]
    else:
        v1 = tf.compat.v1
        with dataset._variant_tensor.graph.as_default():
            variant = dataset._apply_debug_options()._variant_tensor
        with variant.graph.as_default(), v1.Session(graph=variant.graph) as session:
            with tf.device("/CPU:0"):
                output = ops.ipufeed_measure_dataset(
                    variant, run=tf.constant(number, tf.int64), **attributes
                )
            session.run(
                [
                    v1.global_variables_initializer(),
                    v1.local_variables_initializer(),
                    v1.tables_initializer(),
                ]
            )
            values = session.run(list(output))
    return read_outputs(values)


def read_outputs(values: list[Any]) -> RawMeasurement:
    """Makes the measurement of the op's outputs (cc/measure/measurement_outputs.h)."""
    names, numbers, epochs, stamps, code, message, marks = values
    failure = None
    if code != 0:
        from tensorflow.python.framework import errors_impl

        kind = errors_impl.exception_type_from_error_code(int(code))
        failure = kind(None, None, message.decode(errors="replace"))
    counters = {
        name.decode(): int(value) for name, value in zip(names, numbers, strict=True)
    }
    return RawMeasurement(counters, epochs, stamps, failure, marks)
