"""Runs the program of an epoch, execution after execution, and reads its results.

synchronous   run, then the last result, then the callback of the last step
asynchronous  a thread reads each result while the program runs, and calls for each
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed.keras.feed import Feed
from ipufeed.keras.metric_reduction import (
    ReplicatedMetricReductionMethod,
    reduce_on_host,
)
from ipufeed.keras.programs import program_of
from ipufeed.keras.state import ModelState
from ipufeed.queues.hooks import surroundings
from ipufeed.queues.outfeed import IPUOutfeedMode

# How long the reader's thread waits until it sees that it is to end.
POLL_S = 0.1


@dataclass
class Epoch:
    """One epoch of one call.

    Attributes:
        model: The Keras model.
        state: What belongs to it.
        mode: "fit", "evaluate" or "predict".
        feed: The data.
        begin: Called with the number of the first step of what begins.
        end: Called with the number of the last step, and its results.
    """

    model: Any
    state: ModelState
    mode: str
    feed: Feed
    begin: Callable[[int], None]
    end: Callable[[int, Any], None]

    def __post_init__(self) -> None:
        self.replicas = self.state.replicas()
        # Whether each step has a callback for each replica.
        self.reads_replicas_one_by_one = (
            self.mode != "predict"
            and self.replicas > 1
            and self.state.metric_reduction is ReplicatedMetricReductionMethod.NONE
        )


def run_epoch(epoch: Epoch) -> list[Any]:
    """Runs all executions of an epoch.

    Returns:
        The results of the last step; of predict one structure for each execution or
        step, in order, whose tensors have the steps in front: [steps, *shape], with
        several replicas [steps, replicas, *shape].

    Raises:
        Exception: Of the program, of the dataset or of a callback; the feed and the
            outfeed can be used afterwards.
    """
    with epoch.state.kit.training(epoch.model, epoch.mode):
        return _run_epoch(epoch)


def _run_epoch(epoch: Epoch) -> list[Any]:
    program = program_of(epoch.model, epoch.state, epoch.mode, epoch.feed)
    execute = _timed(epoch, program.begin(epoch.feed))
    if program.outfeed._structure is not None:
        program.outfeed.deleter  # noqa: B018 (results that a failed call has left)
    if reads_while_running(epoch.state, epoch.mode):
        return _run_asynchronously(epoch, program, execute)
    results: list[Any] = []
    for first in _executions(epoch):
        epoch.begin(first)
        execute(epoch.state.strategy)
        taken = _take(epoch, program)
        epoch.end(first + epoch.feed.steps.execution - 1, taken)
        if epoch.mode != "predict":
            results.clear()
        results.append(taken)
    return results


def _timed(epoch: Epoch, execute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Runs an execution, and adds its time to that of the epoch of a fit."""
    state, steps, first = epoch.state, epoch.feed.steps.execution, 0
    fits = epoch.mode == "fit"
    if fits:
        state.ran_s = 0.0

    def run(strategy: Any) -> None:
        nonlocal first
        begin = time.monotonic()
        execute(strategy)
        if fits:
            state.ran_s += time.monotonic() - begin
        state.kit.ran(epoch.model, epoch.mode, first, steps)
        first += steps

    return run


def reads_while_running(state: ModelState, mode: str) -> bool:
    """Whether each step's result is read as it comes.

    Where none comes, since data are synthetic or accumulated, callbacks are synchronous.
    """
    own = state.pipeline
    if own.is_on and own.accumulate_outfeed and mode != "predict":
        return False
    comes = surroundings.runs_programs() and not surroundings.synthetic_outfeed()
    return state.asynchronous and comes


def _executions(epoch: Epoch) -> Any:
    """The first step of each execution, until a callback stops the training."""
    steps = epoch.feed.steps
    for first in range(0, steps.epoch, steps.execution):
        yield first
        if epoch.mode == "fit" and epoch.model.stop_training:
            return


def _take(epoch: Epoch, program: Any) -> Any:
    """The results of an execution that has ended: all for predict, else the last."""
    import tensorflow as tf

    outfeed, steps = program.outfeed, program.rows(epoch.feed.steps.execution)
    several = epoch.replicas > 1
    if surroundings.synthetic_outfeed() or not surroundings.runs_programs():
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


def _of_replicas(epoch: Epoch, program: Any, results: Any) -> Any:
    """[replicas, *shape] -> the last replica's, or the reduction."""
    import tensorflow as tf

    method = epoch.state.metric_reduction
    return tf.nest.map_structure(
        lambda rows: rows[-1] if program.reduces else reduce_on_host(method, rows),
        results,
    )


def _run_asynchronously(epoch: Epoch, program: Any, execute: Any) -> list[Any]:
    import tensorflow as tf

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
    """Calls the callbacks of each step as soon as the step's result is there.

    After an error of a callback it goes on to read, so that the program does not have to
    wait for a reader, and calls nothing.
    """

    def __init__(self, epoch: Epoch, program: Any) -> None:
        super().__init__(name="ipufeed_keras_callbacks", daemon=True)
        self.error: BaseException | None = None
        self.results: list[Any] = []
        self._epoch = epoch
        self._program = program
        self._outfeed = program.outfeed
        self._stopped = False
        self._read = 0
        self._last: int | None = None  # the number of results, once it is known
        self.start()

    def run(self) -> None:
        """The thread's work."""
        import tensorflow as tf

        try:
            while not self._done():
                try:
                    for row in self._outfeed.stream(timeout_s=POLL_S):
                        self._pass_on(row)
                        if self._stopped:
                            return
                except tf.errors.DeadlineExceededError:
                    continue  # nothing is lost
        except BaseException as error:
            self.error = self.error or error

    def _done(self) -> bool:
        return self._stopped or (self._last is not None and self._read >= self._last)

    def _pass_on(self, row: Any) -> None:
        step, self._read = self._read, self._read + 1
        epoch = self._epoch
        if self.error is not None:
            return
        try:
            row = self._program.unpack(row)
            if epoch.reads_replicas_one_by_one:
                import tensorflow as tf

                for replica in range(epoch.replicas):
                    # Bound here, for the lambda is used at once.
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
            BaseException: What a callback has raised.
        """
        self._last = ran
        self.join()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ends the thread, whatever has not been read."""
        self._stopped = True
        self.join()
