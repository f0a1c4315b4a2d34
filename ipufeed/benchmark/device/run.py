"""Runs a dataset through an infeed, a loop on the device, and an outfeed.

    dataset --> infeed --> loop on /device:IPU:0 --> outfeed --> native consumer
                           one stamp per element                 counts, epochs, latencies

The loop dequeues an element and enqueues the time of it. The element is not used further:
the measurement ends where the program can compute with it. With DeviceSettings each
iteration is a step of a given length, whose result is its times
(ipufeed/device/program/steps.py), and the host may delay the reading of the results.

Three threads: the program's, which is inside TensorFlow until its end; one inside the op
that reads the results (ipufeed/cc/feeds/outfeed_consumer.h) and stops the program at the
bounds of the settings; and the caller's, which reports progress and handles Ctrl-C.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipufeed import _native
from ipufeed.benchmark.device.settings import TIMES_BYTES, DeviceSettings
from ipufeed.benchmark.measuring.measure import op_attributes
from ipufeed.benchmark.measuring.run import (
    Progress,
    RawMeasurement,
    read_outputs,
    read_progress,
)
from ipufeed.benchmark.result.settings import Settings
from ipufeed.device import queue_hooks as queue_hooks  # connects queues and device
from ipufeed.device.program.clock import read_clock
from ipufeed.device.program.loops import repeat
from ipufeed.device.program.steps import StepTimes, step
from ipufeed.interruptible import run_interruptibly
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, QueueStats
from ipufeed.queues.stats import as_stats
from ipufeed.tf_types import Dataset, Nest, Operation, Tensor

DEVICE = "/device:IPU:0"
# More elements than in any run: the program ends with its dataset, or when it is stopped.
ENDLESS = 2**62
# A stamp is small: a deep ring decouples the program from its reader. With `read_seconds`
# the ring has the default depth of an outfeed.
STAMPS_DEPTH, READ_DEPTH = 256, 3
# The attributes of the native measurement that apply to a run through the device.
ATTRIBUTES = ("epochs", "elements_per_epoch", "seconds_ns", "epoch_per_pass")
STOP_REASON = "the measurement is over"


@dataclass(frozen=True)
class DeviceRun:
    """The counts of a run. Times are monotonic nanoseconds.

    Attributes:
        raw: The native consumer's counts.
        programs: The start and end of each program: one per pass.
        ended: Whether the dataset ended.
        failure: The dataset's tf.errors exception, or None.
        before: The queues' statistics (infeed, outfeed) at the first result, or None.
        after: The queues' statistics at the end of each pass.
        latencies: From the enqueue of a result until a thread blocked in the wait for it
            had it, in ns.
        stored_bytes: The largest sample of the outfeed's stored bytes.
        begun: The number of results before the start of each program.
        depths: Samples of the queues: time (ns), elements in the infeed, results that the
            host has not read.
        rows: The times of the steps, int64 [n, 4]; empty without DeviceSettings.
    """

    raw: RawMeasurement
    programs: list[tuple[int, int]]
    ended: bool
    failure: Exception | None
    before: tuple[QueueStats, QueueStats] | None
    after: list[tuple[QueueStats, QueueStats]]
    latencies: NDArray[np.int64]
    stored_bytes: int
    begun: list[int]
    depths: list[tuple[int, int, int]]
    rows: NDArray[np.int64]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.raw.counters["elements"]

    @property
    def first_ns(self) -> int:
        """The time of the first element; 0 without one."""
        return self.raw.counters["first_ns"]

    @property
    def running_ns(self) -> int:
        """The time in programs since the first result, without the time between passes."""
        return sum(
            max(0, ended_ns - max(begun_ns, self.first_ns))
            for begun_ns, ended_ns in self.programs
        )

    def step_times(self) -> StepTimes:
        """Returns the times of the counted steps that have a stamp."""
        return StepTimes(*(self.rows[:, place] for place in range(4)))


class Runner:
    """One measurement; see run_on_device."""

    def __init__(
        self, dataset: Dataset, settings: Settings, device: DeviceSettings | None = None
    ) -> None:
        self.dataset = dataset
        self.settings = settings
        self.device = device
        self.infeed = IPUInfeedQueue(dataset, device_ordinal=0)
        self.outfeed = IPUOutfeedQueue(
            device_ordinal=0, buffer_depth=results_depth(device)
        )
        self.program = build_program(self.infeed, self.outfeed, device)
        self.entry = _native.entry()
        self.number = self.entry.ipufeed_run_new()
        self.outputs: list[Any] | None = None
        self.requested_ns = self.created_ns = 0
        self.programs: list[tuple[int, int]] = []
        self.ended = False
        self.failure: Exception | None = None
        self.error: BaseException | None = None
        self.begun: list[int] = []
        self.after: list[tuple[QueueStats, QueueStats]] = []
        self.depths: list[tuple[int, int, int]] = []
        self.programs_done = False

    def measure(self) -> None:
        """Starts the program's thread, and reads its results until it has ended."""
        self.requested_ns = time.monotonic_ns()
        # A daemon thread: Python code of the dataset may never return.
        threading.Thread(
            target=self.execute, name="ipufeed_program", daemon=True
        ).start()
        try:
            self.outputs = self.read_results()
        except BaseException:
            self.stop()
            stop_programs()
            raise
        if self.error is not None:
            raise self.error

    def read_results(self) -> list[Any]:
        """Returns the outputs of the op, which returns when the programs have ended."""
        attributes = op_attributes(self.settings)
        device = self.device or DeviceSettings()
        size, samples, _ = element_size(self.dataset)
        with tf.device("/CPU:0"):
            outputs = _native.load().ipufeed_measure_outfeed(
                run=tf.constant(self.number, tf.int64),
                infeed=tf.constant(self.infeed._number, tf.int64),
                outfeed=tf.constant(self.outfeed._number, tf.int64),
                requested_ns=tf.constant(self.requested_ns, tf.int64),
                # The component "times" follows "more", in the order of their names.
                component=int(_more_bytes(device) > 0),
                words=1 if self.device is None else TIMES_BYTES // 8,
                element_bytes=size,
                element_samples=samples,
                read_ns=round((device.read_seconds or 0.0) * 1e9),
                **{name: attributes[name] for name in ATTRIBUTES},
            )
        return [tensor.numpy() for tensor in outputs]

    def execute(self) -> None:
        """Runs the program once per pass, on the program's thread."""
        try:
            for _ in range(self.settings.passes or 1):
                _ = self.infeed.initializer
                self.created_ns = self.created_ns or time.monotonic_ns()
                self.ended = False
                if self.is_over():
                    break
                self.begun.append(self.outfeed.stats().elements)
                self.run_program()
                self.after.append((self.infeed.stats(), self.outfeed.stats()))
                if not self.ended or self.is_over():
                    break
                results = self.after[-1][1].elements
                self.entry.ipufeed_run_end_pass(self.number, results)
        except BaseException as error:  # the initializer's; the caller raises it
            self.error = error
        finally:
            self.programs_done = True
            self.entry.ipufeed_run_end_source(self.number)

    def run_program(self) -> None:
        """Runs the program until the dataset ends or fails, or until it is stopped."""
        bound = self.settings.requested_elements or ENDLESS
        step_ns = 0 if self.device is None else self.device.step_ns
        begun_ns = time.monotonic_ns()
        try:
            with tf.device(DEVICE):
                self.program(
                    tf.constant(bound, tf.int64), tf.constant(step_ns, tf.int64)
                )
        except tf.errors.OutOfRangeError as error:
            self.ended = "Are you trying to dequeue more" in error.message
            self.failure = None if self.ended else error
        except tf.errors.OpError as error:
            if not self.is_over():
                self.failure = error
        self.programs.append((begun_ns, time.monotonic_ns()))

    def is_over(self) -> bool:
        """Returns whether a bound is reached, so that the program is stopped."""
        return bool(self.entry.ipufeed_run_is_over(self.number))

    def sample(self) -> Progress:
        """Samples the fill of the queues, on the caller's thread; returns the progress."""
        progress = read_progress(self.entry, self.number)
        if progress.first_ns and not self.programs_done:
            filled = self.infeed.stats().filled
            read = self.entry.ipufeed_run_results_read(self.number)
            unread = max(0, self.outfeed.stats().elements - read)
            self.depths.append((time.monotonic_ns(), filled, unread))
        return progress

    def stop(self) -> None:
        """Makes the consumer stop the program, also one that is starting. Threads: any."""
        self.entry.ipufeed_run_stop(self.number)

    def found(self) -> DeviceRun | None:
        """Returns the run after measure() has returned; before that None."""
        if self.outputs is None:
            return None
        raw = read_outputs(self.outputs[:7])
        latencies, rows, queues, stored_bytes = self.outputs[7:]
        counters = {**raw.counters, "created_ns": self.created_ns}
        counters["ended"] = int(self.ended)
        infeed, outfeed = queues.tolist()
        before = (
            as_stats(self.infeed.stats().name, infeed),
            as_stats(self.outfeed.stats().name, outfeed),
        )
        return DeviceRun(
            raw=RawMeasurement(counters, raw.epochs, raw.stamps, None, raw.marks),
            programs=self.programs,
            ended=self.ended,
            failure=self.failure,
            before=before if counters["elements"] else None,
            after=self.after,
            latencies=latencies,
            stored_bytes=int(stored_bytes),
            begun=self.begun,
            depths=self.depths,
            rows=rows,
        )

    def delete(self, interrupted: bool) -> None:
        """Releases the dataset, so that its threads stop using CPU time."""
        self.entry.ipufeed_run_free(self.number)  # a program that starts now is stopped
        if interrupted or not self.programs_done:
            # Python code of the dataset may still run: do not wait for it.
            self.entry.ipufeed_infeed_delete(self.infeed._number)
        else:
            with contextlib.suppress(tf.errors.NotFoundError):  # its initializer failed
                _ = self.infeed.deleter
        self.entry.ipufeed_outfeed_delete(self.outfeed._number)


def results_depth(device: DeviceSettings | None) -> int:
    """Returns the capacity of the outfeed's ring."""
    slow = device is not None and device.read_seconds is not None
    return READ_DEPTH if slow else STAMPS_DEPTH


def _more_bytes(device: DeviceSettings) -> int:
    """Returns the bytes of a result in addition to the times of its step."""
    return (device.result_bytes or TIMES_BYTES) - TIMES_BYTES


def element_size(dataset: Dataset) -> tuple[int, int, bool]:
    """Returns an element's bytes and samples, and whether its tensors agree in the latter.

    The samples are the smallest leading dimension, 0 if no tensor has one.
    """
    specs = tf.nest.flatten(dataset.element_spec)
    leading = {spec.shape[0] if spec.shape.rank else None for spec in specs}
    samples = min((size for size in leading if size is not None), default=0)
    return (
        sum(spec.shape.num_elements() * spec.dtype.size for spec in specs),
        samples,
        len(leading) == 1 and None not in leading,
    )


def build_program(
    infeed: IPUInfeedQueue,
    outfeed: IPUOutfeedQueue,
    device: DeviceSettings | None = None,
) -> Any:
    """Compiles the loop, a function of n and the nanoseconds of a step.

    It reads no element of the dataset.
    """

    def loop(n: Tensor, step_ns: Tensor) -> Nest:
        def body(*components: Tensor, **named: Tensor) -> Operation | None:
            if device is None:
                return outfeed.enqueue(read_clock())
            # The times are part of the result's bytes.
            results = {"times": step(tf.cast(step_ns, tf.float64) / 1e9)}
            more = _more_bytes(device)
            if more > 0:
                results["more"] = tf.fill([more], tf.constant(1, tf.uint8))
            return outfeed.enqueue(results)

        return repeat(n, body, [], infeed)

    number = tf.TensorSpec([], tf.int64)
    with tf.device(DEVICE):
        # With a signature: TensorFlow would warn of a loop that is built for each run.
        program = tf.function(
            loop, jit_compile=True, autograph=False
        ).get_concrete_function(number, number)
        program(tf.constant(0, tf.int64), tf.constant(0, tf.int64))
    return program


def run_on_device(
    dataset: Dataset,
    settings: Settings,
    on_progress: Callable[[Progress], None] | None = None,
    device: DeviceSettings | None = None,
) -> tuple[DeviceRun | None, BaseException | None]:
    """Runs `dataset` through the device until a bound of `settings` is reached.

    Returns:
        The counts, and the exception that interrupted the run (the KeyboardInterrupt, or
        that of `on_progress`), or None. The counts are None if it was interrupted before
        the first result.

    Raises:
        tf.errors.OpError: The dataset could not be started.
    """
    runner = Runner(dataset, settings, device)

    def follow() -> None:
        progress = runner.sample()
        if on_progress is not None:
            on_progress(progress)

    interrupted = True
    try:
        ended = run_interruptibly(
            runner.measure, name="ipufeed_collect", on_poll=follow, stop=runner.stop
        )
        interrupted = ended.interruption is not None
        run = runner.found()
    finally:
        runner.delete(interrupted)
    if ended.interruption is None and ended.error is not None:
        raise ended.error
    return run, ended.interruption


def stop_programs() -> None:
    """Stops the program on the device."""
    _native.entry().ipufeed_stop_programs(STOP_REASON.encode())
