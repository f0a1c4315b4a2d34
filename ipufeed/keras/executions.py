"""Runs the executions of an epoch, and passes their results to callbacks.

synchronous   run; read the last result; call the callback of the last step
asynchronous  a thread reads each result while the program runs, and calls its callback
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.keras.feed import Feed
from ipufeed.keras.programs import AnyProgram, Execute, program_of
from ipufeed.keras.replica_metrics import (
    ReplicatedMetricReductionMethod,
    reduce_on_host,
)
from ipufeed.keras.state import ModelState
from ipufeed.queues.hooks import device_hooks
from ipufeed.queues.outfeed import IPUOutfeedMode
from ipufeed.tf_types import KerasModel, Nest, Tensor

# The interval at which the reader checks whether it must end.
POLL_S = 0.1


@dataclass
class Epoch:
    """One epoch of one call.

    Attributes:
        model: The Keras model.
        state: Its state.
        mode: "fit", "evaluate" or "predict".
        feed: The data.
        begin: Called with the number of the first step of an execution, or of a step.
        end: Called with the number of the last step, and its results.
    """

    model: KerasModel
    state: ModelState
    mode: str
    feed: Feed
    begin: Callable[[int], None]
    end: Callable[[int, Nest], None]

    def __post_init__(self) -> None:
        self.replicas = self.state.replicas()
        # Whether each step has a callback for each replica.
        self.reads_replicas_one_by_one = (
            self.mode != "predict"
            and self.replicas > 1
            and self.state.metric_reduction is ReplicatedMetricReductionMethod.NONE
        )


def run_epoch(epoch: Epoch) -> list[Nest]:
    """Runs all executions of an epoch.

    Returns:
        The results of the last step; for predict a nest for each execution or step, in
        order, of tensors [steps, *shape], with several replicas [steps, replicas, *shape].

    Raises:
        ValueError: A batch of a generator differs from the first one.
        tf.errors.OutOfRangeError: The data have ended early.
        Exception: The program, the dataset or a callback failed; the feed and the outfeed
            remain usable.
    """
    with epoch.state.kit.training(epoch.model, epoch.mode):
        try:
            return _run_epoch(epoch)
        except tf.errors.OpError as error:
            cause = epoch.feed.explain(error)
            if cause is error:
                raise
            raise cause from None


def _run_epoch(epoch: Epoch) -> list[Nest]:
    program = program_of(epoch.model, epoch.state, epoch.mode, epoch.feed)
    execute = _timed(epoch, program.begin(epoch.feed))
    if program.outfeed._structure is not None:
        program.outfeed.deleter  # noqa: B018 (drops results of a failed call)
    if reads_while_running(epoch.state, epoch.mode):
        return _run_asynchronously(epoch, program, execute)
    results: list[Tensor] = []
    for first in _executions(epoch):
        epoch.begin(first)
        execute(epoch.state.strategy)
        taken = _take(epoch, program)
        epoch.end(first + epoch.feed.steps.execution - 1, taken)
        if epoch.mode != "predict":
            results.clear()
        results.append(taken)
    return results


def _timed(epoch: Epoch, execute: Execute) -> Execute:
    """Wraps `execute`: adds the run time to that of the epoch, in fit."""
    state, steps, first = epoch.state, epoch.feed.steps.execution, 0
    fits = epoch.mode == "fit"
    if fits:
        state.ran_s = 0.0

    def run(strategy: IPUStrategyV1) -> None:
        nonlocal first
        begin = time.monotonic()
        execute(strategy)
        if fits:
            state.ran_s += time.monotonic() - begin
        state.kit.ran(epoch.model, epoch.mode, first, steps)
        first += steps

    return run


def reads_while_running(state: ModelState, mode: str) -> bool:
    """Whether the result of each step is read while the program runs.

    With synthetic or accumulated results there is none to read: callbacks are synchronous.
    """
    own = state.pipeline
    if own.is_on and own.accumulate_outfeed and mode != "predict":
        return False
    comes = device_hooks.runs_programs() and not device_hooks.synthetic_outfeed()
    return state.asynchronous and comes


# The attribute of the model with which a callback stops a call.
STOPS = {
    "fit": "stop_training",
    "evaluate": "stop_evaluating",
    "predict": "stop_predicting",
}


def _executions(epoch: Epoch) -> Iterator[int]:
    """Yields the first step of each execution, until a callback stops the call."""
    steps, stop = epoch.feed.steps, STOPS[epoch.mode]
    for first in range(0, steps.epoch, steps.execution):
        yield first
        if getattr(epoch.model, stop, False):
            return
    epoch.feed.end_epoch()


def _take(epoch: Epoch, program: AnyProgram) -> Nest:
    """Reads the results of an execution: all for predict, else the last."""
    outfeed, steps = program.outfeed, program.rows(epoch.feed.steps.execution)
    several = epoch.replicas > 1
    if device_hooks.synthetic_outfeed() or not device_hooks.runs_programs():
        shape = [epoch.replicas] if several else []
        front = (
            shape if outfeed._outfeed_mode is IPUOutfeedMode.LAST else [steps, *shape]
        )
        results = tf.nest.map_structure(
            lambda spec: tf.zeros([*front, *spec.shape], spec.dtype), outfeed._structure
        )
    else:
        results = outfeed.dequeue()
    results = program.unpack(results)
    if epoch.mode == "predict":
        return results
    if outfeed._outfeed_mode is not IPUOutfeedMode.LAST:
        results = tf.nest.map_structure(lambda rows: rows[-1], results)
    return _of_replicas(epoch, program, results) if several else results


def _of_replicas(epoch: Epoch, program: AnyProgram, results: Nest) -> Nest:
    """Reduces [replicas, *shape] to the last replica's values, or by the method."""
    method = epoch.state.metric_reduction
    return tf.nest.map_structure(
        lambda rows: rows[-1] if program.reduces else reduce_on_host(method, rows),
        results,
    )


def _run_asynchronously(
    epoch: Epoch, program: AnyProgram, execute: Execute
) -> list[Nest]:
    reader = _Reader(epoch, program)
    ran = 0
    try:
        for _ in _executions(epoch):
            execute(epoch.state.strategy)
            ran += epoch.feed.steps.execution
            if reader.error is not None:
                break
        reader.finish(ran)
    except BaseException:
        reader.stop()
        raise
    if epoch.mode != "predict":
        return reader.results
    return [tf.nest.map_structure(lambda *rows: tf.stack(rows), *reader.results)]


class _Reader(threading.Thread):
    """Calls the callbacks of each step as soon as its result is available.

    After an error of a callback it continues to read, so that the program is not blocked,
    without calling callbacks.
    """

    def __init__(self, epoch: Epoch, program: AnyProgram) -> None:
        super().__init__(name="ipufeed_keras_callbacks", daemon=True)
        self.error: BaseException | None = None
        self.results: list[Tensor] = []
        self._epoch = epoch
        self._program = program
        self._outfeed = program.outfeed
        self._stopped = False
        self._read = 0
        self._last: int | None = None  # the number of results, once it is known
        self.start()

    def run(self) -> None:
        """Reads results until the thread must end."""
        try:
            while not self._done():
                try:
                    for row in self._outfeed.stream(timeout_s=POLL_S):
                        self._pass_on(row)
                        if self._stopped:
                            return
                except tf.errors.DeadlineExceededError:
                    continue  # no result is lost
        except BaseException as error:
            self.error = self.error or error

    def _done(self) -> bool:
        return self._stopped or (self._last is not None and self._read >= self._last)

    def _pass_on(self, row: Nest) -> None:
        step, self._read = self._read, self._read + 1
        epoch = self._epoch
        if self.error is not None:
            return
        try:
            row = self._program.unpack(row)
            if epoch.reads_replicas_one_by_one:
                for replica in range(epoch.replicas):
                    # Bound as a default; the lambda is used at once.
                    logs = tf.nest.map_structure(lambda rows, r=replica: rows[r], row)
                    epoch.begin(step)
                    epoch.end(step, logs)
            else:
                several = epoch.mode != "predict" and epoch.replicas > 1
                logs = _of_replicas(epoch, self._program, row) if several else row
                epoch.begin(step)
                epoch.end(step, logs)
            if epoch.mode != "predict":
                self.results.clear()
            self.results.append(logs)
        except BaseException as error:
            self.error = error

    def finish(self, ran: int) -> None:
        """Waits until the callbacks of all steps have been called.

        Raises:
            BaseException: A callback has raised it.
        """
        self._last = ran
        self.join()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ends the thread, also with results left to read."""
        self._stopped = True
        self.join()
