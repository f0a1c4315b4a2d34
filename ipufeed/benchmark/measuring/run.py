"""Runs the measuring op, on a thread of its own so that Ctrl-C and progress work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.interruptible import run_interruptibly
from ipufeed.tf_types import Dataset


@dataclass(frozen=True)
class RawMeasurement:
    """What the op counted (cc/measure/measurement.h); times in monotonic nanoseconds.

    Attributes:
        counters: Name to number.
        epochs: int64 [n, 5]: elements, bytes, samples, start, end. Each row adds up
            counters["epochs_per_entry"] neighbouring epochs.
        stamps: int64 [n]: when each of the first n elements was there.
        failure: The tf.errors exception that the dataset ended with, or None.
        marks: int64 [n, 7]: a time, and up to it elements, bytes, ns starved, ns blocked,
            the sum of the queue's depths and how many depths that are.
    """

    counters: dict[str, int]
    epochs: np.ndarray[Any, np.dtype[np.int64]]
    stamps: np.ndarray[Any, np.dtype[np.int64]]
    failure: Exception | None
    marks: np.ndarray[Any, np.dtype[np.int64]] = field(
        default_factory=lambda: np.zeros([0, 7], np.int64)
    )


@dataclass(frozen=True)
class Progress:
    """How far a running measurement is; `first_ns` is 0 before the first element."""

    elements: int
    bytes: int
    epochs: int
    first_ns: int


def run_measurement(
    dataset: Dataset,
    attributes: dict[str, Any],
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[RawMeasurement | None, BaseException | None]:
    """Measures `dataset` with the op's `attributes`.

    Returns:
        The measurement, and what interrupted it: the KeyboardInterrupt (or whatever
        `on_progress` raised) that ended it early, or None. The measurement is None when
        it was interrupted before the op could give one.

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
            lambda: call_op(dataset, attributes, number),
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
    """The counters of a run, as its consumer last stored them."""
    values = (ctypes.c_int64 * 4)()
    entry.ipufeed_run_progress(number, values)
    return Progress(*values)


def call_op(
    dataset: Dataset, attributes: dict[str, Any], number: int
) -> RawMeasurement:
    """Runs the op eagerly or, for a dataset that was built in a graph, in a Session."""
    import tensorflow as tf

    ops = _native.load()
    if not tf.is_symbolic_tensor(dataset._variant_tensor):
        # As iter() does: for tf.data.experimental.enable_debug_mode().
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
