"""Runs a dataset through an infeed, a loop on the device, and an outfeed.

    dataset --> infeed --> loop on /device:IPU:0 --> outfeed --> collector
                           one stamp per element                 counts, latencies

The loop takes an element and gives the time at which it did. The element itself goes no
further: what is measured is that it has been put where the program can compute with it.
With DeviceSettings each iteration is a step of a given length, which gives its times
(ipufeed/device/program/steps.py), and the host may take its time for the results.

Three threads: the program's, which is inside TensorFlow until its end; the collector's;
and the caller's, which watches the clock, reports progress and sees Ctrl-C.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.benchmark.device.epochs import EpochTable
from ipufeed.benchmark.device.marks import MarkTable
from ipufeed.benchmark.device.settings import TIMES_BYTES, DeviceSettings
from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.result.settings import Settings
from ipufeed.device import queue_hooks as queue_hooks  # the queues ask the device
from ipufeed.device.program.clock import read_clock, to_ns
from ipufeed.device.program.loops import repeat
from ipufeed.device.program.steps import StepTimes, step, to_times
from ipufeed.interruptible import POLL_S, run_interruptibly
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, QueueStats
from ipufeed.tf_types import Dataset

DEVICE = "/device:IPU:0"
# More than any run takes; with it a program ends with its dataset, or when it is stopped.
ENDLESS = 2**62
# The collector rests so long after each look: it shares the CPUs with what it measures.
REST_S = 0.004
# A stamp is small: a slow reader must not hold the program up. A host that is to be
# slow gets what an outfeed has by default.
STAMPS_DEPTH, READ_DEPTH = 256, 3
SLICE_NS = 50_000_000
STOPPED_BY_US = "the measurement is over"


@dataclass
class DeviceRun:
    """What was counted. Times are monotonic nanoseconds.

    Attributes:
        table: Epochs and stamps.
        marks: The course of the run.
        requested_ns: When the first iterator was asked for; created_ns: it was there.
        finished_ns: When the last program had ended.
        running_ns: How long programs ran, from the first result on. Between two passes
            none does.
        cpu_ns: CPU time of the process from the first element on; cpu_wall_ns: the time
            meanwhile.
        ended: Whether the dataset came to its end.
        stopped: Whether the caller was interrupted.
        failure: What the dataset failed with, a tf.errors exception, or None.
        before: The queues' statistics (infeed, outfeed) at the first result.
        after: The same at the end of each pass.
        latencies: From the enqueue of a result to when a thread that was blocked in the
            wait for it had it, in ns.
        stored_bytes: The most that the outfeed had stored when it was sampled.
        begun: How many results there had been when each program began.
        depths: Looks at the queues: when (ns), elements in the infeed, results that the
            host has not read.
        step_chunks: Times of the steps, int32 [n, 8] each; none without DeviceSettings.
    """

    table: EpochTable
    marks: MarkTable = field(default_factory=MarkTable)
    requested_ns: int = 0
    created_ns: int = 0
    finished_ns: int = 0
    running_ns: int = 0
    cpu_ns: int = 0
    cpu_wall_ns: int = 0
    ended: bool = False
    stopped: bool = False
    failure: Any = None
    before: tuple[QueueStats, QueueStats] | None = None
    after: list[tuple[QueueStats, QueueStats]] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)
    stored_bytes: int = 0
    begun: list[int] = field(default_factory=list)
    depths: list[tuple[int, int, int]] = field(default_factory=list)
    step_chunks: list[Any] = field(default_factory=list)

    def step_times(self) -> StepTimes:
        """The times of the steps that the table counts and keeps a stamp of."""
        rows = np.concatenate([np.empty([0, 8], np.int32), *self.step_chunks])
        return to_times(rows[: len(self.table.stamps())])


class Runner:
    """One measurement; see run_on_device."""

    def __init__(
        self, dataset: Dataset, settings: Settings, device: DeviceSettings | None = None
    ) -> None:
        self.settings = settings
        self.device = device
        self.infeed = IPUInfeedQueue(dataset, device_ordinal=0)
        self.outfeed = IPUOutfeedQueue(
            device_ordinal=0, buffer_depth=results_depth(device)
        )
        self.program = build_program(self.infeed, self.outfeed, device)
        self.run = DeviceRun(EpochTable(settings))
        self.entry = _native.entry()
        self.closing = threading.Event()
        self.program_done = threading.Event()
        self.error: BaseException | None = None
        self._cpu_start: tuple[int, int] | None = None
        # Results that had been read, when the host took more, and how many.
        self._reading = (0, 0, 0)

    def run_all(self) -> None:
        """The collector's thread, which starts that of the program."""
        # A daemon: Python code inside the dataset may never return.
        threading.Thread(
            target=self.execute, name="ipufeed_program", daemon=True
        ).start()
        self.collect()
        if self.error is not None:
            raise self.error

    def execute(self) -> None:
        """The program's thread: each pass is one run of the program."""
        import tensorflow as tf

        settings, run = self.settings, self.run
        bound = settings.asked_elements or ENDLESS
        step_ns = 0 if self.device is None else self.device.step_ns
        try:
            for number in range(settings.passes or 1):
                run.requested_ns = run.requested_ns or time.monotonic_ns()
                _ = self.infeed.initializer
                run.created_ns = run.created_ns or time.monotonic_ns()
                if self.closing.is_set():
                    break
                run.ended = False
                run.begun.append(self.outfeed.stats().elements)
                begun = time.monotonic_ns()
                try:
                    with tf.device(DEVICE):
                        self.program(
                            tf.constant(bound, tf.int64), tf.constant(step_ns, tf.int64)
                        )
                except tf.errors.OutOfRangeError as error:
                    run.ended = "Are you trying to dequeue more" in error.message
                    run.failure = None if run.ended else error
                except tf.errors.OpError as error:
                    if not self.closing.is_set():
                        run.failure = error
                ended_ns = time.monotonic_ns()
                run.running_ns += ended_ns - max(begun, run.table.first_ns)
                run.after.append((self.infeed.stats(), self.outfeed.stats()))
                if not run.ended or self.closing.is_set():
                    break
                if settings.passes:
                    self.drain_pass(number)
        except BaseException as error:  # of the initializer; the caller raises it
            self.error = error
        finally:
            run.finished_ns = time.monotonic_ns()
            if self._cpu_start is not None:
                cpu, wall = self._cpu_start
                run.cpu_ns = time.process_time_ns() - cpu
                run.cpu_wall_ns = run.finished_ns - wall
            self.program_done.set()

    def drain_pass(self, number: int) -> None:
        """Waits until the collector has all of a pass, and closes its epoch."""
        given = self.run.after[-1][1].elements
        while self.run.table.elements < given and not self.closing.is_set():
            time.sleep(1e-3)
        self.run.table.end_pass()

    def collect(self) -> None:
        """Takes what comes, until the program has ended."""
        try:
            # Between two looks it rests; then it takes what has come meanwhile, and
            # blocks for one more, as a thread that waits for each result would.
            while not self.program_done.is_set():
                self.read(self.take(waited_from=None))
                self.read(self.block())
                time.sleep(REST_S)
            self.take(waited_from=None)
        except BaseException as error:
            self.error = error
        finally:
            table = self.run.table
            table.finish()
            finished_ns = self.run.finished_ns or table.last_ns
            self.run.marks.finish(
                table.last_ns, finished_ns, table.elements, self.infeed.stats()
            )

    def read(self, results: int) -> None:
        """Takes the time that the host takes for `results` results, if it takes any."""
        before = sum(self._reading[::2])
        self._reading = (before, time.monotonic_ns(), results)
        if self.device is None or self.device.read_seconds is None or not results:
            return
        end = time.monotonic() + results * self.device.read_seconds
        # In slices: what it would be too much to wait for may be an hour.
        while (left := end - time.monotonic()) > 0 and not self.program_done.wait(
            min(left, SLICE_NS / 1e9)
        ):
            pass

    def unread(self) -> int:
        """Results that the host has not read yet. Any thread."""
        before, start, taken = self._reading
        each = None if self.device is None else self.device.read_seconds
        if each is not None:
            done = (time.monotonic_ns() - start) / 1e9 / each
            taken = min(taken, int(done))
        return max(0, self.outfeed.stats().elements - before - taken)

    def look(self) -> None:
        """Notes how full the queues are. The caller's thread."""
        if self.run.table.first_ns == 0 or self.program_done.is_set():
            return
        self.run.depths.append(
            (time.monotonic_ns(), self.infeed.stats().filled, self.unread())
        )

    def block(self) -> int:
        """Waits for the next result, and notes how long it was on its way."""
        while not self.program_done.is_set():
            number = self.outfeed._number
            seen = self.entry.ipufeed_outfeed_runs(number)
            start = time.monotonic_ns()
            if self.entry.ipufeed_outfeed_wait(number, seen, SLICE_NS) != 0:
                return self.take(waited_from=start)
        return 0

    def take(self, waited_from: int | None) -> int:
        """Takes all results; waited_from: when the thread began to wait for them."""
        run = self.run
        stored = self.outfeed.stats().stored_bytes
        results = self.outfeed.dequeue()
        visible = time.monotonic_ns()
        stamps = self.stamps(results)
        if not len(stamps):
            return 0
        if run.before is None:
            run.before = (self.infeed.stats(), self.outfeed.stats())
            self._cpu_start = (time.process_time_ns(), time.monotonic_ns())
        elif waited_from is not None and stamps[0] >= waited_from:
            run.latencies.append(visible - int(stamps[0]))
        run.stored_bytes = max(run.stored_bytes, stored)
        table, begun = run.table, run.table.elements > 0
        table.add(stamps, run.requested_ns)
        if begun:
            run.marks.look(table.last_ns, table.elements, self.infeed.stats())
        else:  # the first mark is that of the first element, whatever came with it
            run.marks.look(table.first_ns, 1, self.infeed.stats())
        return len(stamps)

    def stamps(self, results: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """When each result was given; of steps the times are kept."""
        if isinstance(results, list):  # nothing has been enqueued yet
            return np.empty(0, np.int64)
        if self.device is None:
            return to_ns(results)
        rows = np.asarray(results["times"])
        if len(rows):
            self.run.step_chunks.append(rows)
        return to_times(rows).end

    def stop(self) -> None:
        """Any thread. The program ends soon; also one that is only about to begin."""
        self.closing.set()
        if not self.program_done.is_set():
            stop_programs()

    def delete(self) -> None:
        """Lets go of the dataset, so that its threads take no CPU any more."""
        import tensorflow as tf

        if self.run.stopped or not self.program_done.is_set():
            # Python code inside the dataset may still run: do not wait for it.
            self.entry.ipufeed_infeed_delete(self.infeed._number)
        else:
            with contextlib.suppress(tf.errors.NotFoundError):  # its initializer failed
                _ = self.infeed.deleter
        self.entry.ipufeed_outfeed_delete(self.outfeed._number)


def results_depth(device: DeviceSettings | None) -> int:
    """Results that the outfeed's ring holds."""
    slow = device is not None and device.read_seconds is not None
    return READ_DEPTH if slow else STAMPS_DEPTH


def build_program(
    infeed: IPUInfeedQueue,
    outfeed: IPUOutfeedQueue,
    device: DeviceSettings | None = None,
) -> Any:
    """The loop, compiled: n, nanoseconds of a step -> nothing.

    Compiling it takes nothing from the dataset.
    """
    import tensorflow as tf

    def loop(n: Any, step_ns: Any) -> Any:
        def body(*components: Any, **named: Any) -> Any:
            if device is None:
                return outfeed.enqueue(read_clock())
            # The times are a part of the result's bytes, as far as these go.
            results = {"times": step(tf.cast(step_ns, tf.float64) / 1e9)}
            more = (device.result_bytes or TIMES_BYTES) - TIMES_BYTES
            if more > 0:
                results["more"] = tf.fill([more], tf.constant(1, tf.uint8))
            return outfeed.enqueue(results)

        return repeat(n, body, [], infeed)

    number = tf.TensorSpec([], tf.int64)
    with tf.device(DEVICE):
        # By its signature: a loop that is built for each run is not a cause for a warning.
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
) -> tuple[DeviceRun, BaseException | None]:
    """Runs `dataset` through the device until a bound of `settings` is met.

    Returns:
        What was counted, and what interrupted it (the KeyboardInterrupt, or what
        `on_progress` raised), or None.

    Raises:
        tf.errors.OpError: The dataset could not be started.
    """
    runner = Runner(dataset, settings, device)
    run, table = runner.run, runner.run.table
    limit = settings.time_limit

    def follow() -> bool:
        runner.look()
        if on_progress is not None:
            on_progress(table.progress())
        return table.complete or is_over(limit, table.first_ns)

    try:
        ended = run_interruptibly(
            runner.run_all,
            name="ipufeed_collect",
            on_poll=follow,
            stop=runner.stop,
            pause_s=lambda: poll_time(limit, table.first_ns),
        )
        run.stopped = ended.interruption is not None
    finally:
        runner.delete()
    if ended.interruption is None and ended.error is not None:
        raise ended.error
    return run, ended.interruption


def stop_programs() -> None:
    """Ends the program on the device."""
    _native.entry().ipufeed_stop_programs(STOPPED_BY_US.encode())


def poll_time(limit: float | None, first_ns: int) -> float:
    """Until the next look: short of POLL_S where the end is nearer."""
    if limit is None or first_ns == 0:
        return POLL_S
    left = limit - (time.monotonic_ns() - first_ns) / 1e9
    return min(POLL_S, max(0.0, left))


def is_over(limit: float | None, first_ns: int) -> bool:
    """Whether the time that was asked for has gone by since the first element."""
    if limit is None or first_ns == 0:
        return False
    return time.monotonic_ns() - first_ns >= limit * 1e9
