r"""Runs an application repeatedly, and returns its results to the calls.

    call --FIFO--> infeed --> program, on the engine's thread --> outfeed --> reader thread
      \________ _Waiting, one for each element, in their order ________________/

When the program's loop ends, the engine runs the program again, with the present values of
the variables. An error of the program is raised in all waiting calls; the next call starts
the program with the values that the engine was started with.

Threads: any may call; elements are fed in the order of the calls.
"""

from __future__ import annotations

import atexit
import collections
import functools
import threading

import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed import ending
from ipufeed.applications.file import Application, are_same
from ipufeed.applications.program import Program
from ipufeed.applications.signature import grouped
from ipufeed.device.log import LOGGER
from ipufeed.device.system.system import require_usable
from ipufeed.executable.store import provided
from ipufeed.process_state import STATE
from ipufeed.queues import interrupt
from ipufeed.tf_types import Tensor

# Elements of zeros fed per `timeout` that a call waits beyond the first.
DUMMIES_IN_A_TIMEOUT = 8
SLICE_S = 0.1  # a wait delays the handling of Ctrl-C by at most this time
JOIN_S = 10.0


class _Waiting:
    """An element on its way through the program.

    Attributes:
        parts: The result of each outfeed, or None until it arrives.
        error: The error that ended the program.
        is_dummy: Whether it is an element of zeros, without a call.
    """

    def __init__(self, outfeeds: int, *, is_dummy: bool = False) -> None:
        self.parts: list[list[Tensor] | None] = [None] * outfeeds
        self.missing = outfeeds
        self.error: BaseException | None = None
        self.is_dummy = is_dummy
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self, seconds: float) -> bool:
        """Waits for the result or error; False if neither has arrived."""
        if not self._done.acquire(timeout=seconds):
            return False
        self._done.release()
        return True

    def end(self) -> None:
        """Wakes the call: the result or error has arrived."""
        self._done.release()

    def result(self) -> list[Tensor]:
        """Returns the result, or raises the error."""
        if self.error is not None:
            raise self.error
        return [tensor for part in self.parts for tensor in part or ()]


class _Engine:
    """A started application.

    Args:
        name: The engine's name.
        application: The application.
        inputs: The values of the signature's inputs.
        timeout_s: Seconds that a call of a pipeline waits for further calls, before
            elements of zeros are fed.
    """

    def __init__(
        self,
        name: str,
        application: Application,
        inputs: list[Tensor],
        timeout_s: float,
    ) -> None:
        self.name = name
        self.application = application
        self._inputs = inputs
        self._timeout_s = timeout_s
        self._outfeeds = len(grouped(application.signature.streamed_outputs))
        # Held while feeding: elements are in the order of `_waiting`. Never held while
        # waiting for a result.
        self._feeding = threading.Lock()
        # Guards what follows.
        self._lock = threading.Lock()
        self._waiting: list[collections.deque[_Waiting]] = []
        self._program: Program | None = None
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None
        self._stopped = False
        ipus = require_usable(application.ordinal).num_ipus
        self._needs_company = application.pipelined or ipus > application.shards
        provided.provide(application.programs)

    def warn_of_others(self, application: Application, inputs: list[Tensor]) -> None:
        """Warns if a start has named another application or other inputs."""
        if application is self.application:  # which this start has started
            return
        if not self.application.is_same(application):
            other = "application"
        elif not are_same(inputs, self._inputs):
            other = "inputs"
        else:
            return
        LOGGER.warning(
            "Engine %s exists and is left as it is, with its own %s: start the other one "
            "with another name, or call embedded_runtime_stop first.",
            self.name,
            other,
        )

    def start(self) -> None:
        """Starts the program, unless it runs.

        Raises:
            tf.errors.OpError: The variables or queues cannot be created.
            tf.errors.FailedPreconditionError: The engine has been stopped.
        """
        with self._lock:
            if self._stopped:
                raise tf.errors.FailedPreconditionError(
                    None, None, f"Engine {self.name} has been stopped."
                )
            if self._program is not None:
                return
            with context.eager_mode():
                program = Program(self.application, self._inputs, self.name)
                program.open()
            self._program = program
            self._error = None
            self._waiting = [collections.deque() for _ in range(self._outfeeds or 1)]
            targets = [functools.partial(self._run, program)]
            targets += [
                functools.partial(self._read, program, index)
                for index in range(self._outfeeds)
            ]
            self._threads = [
                threading.Thread(
                    target=target, name=f"ipufeed_engine_{self.name}", daemon=True
                )
                for target in targets
            ]
            for thread in self._threads:
                thread.start()

    def call(self, inputs: list[Tensor]) -> list[Tensor]:
        """Feeds one element, and waits for its result.

        Args:
            inputs: The components of one element of each infeed, as tensors or arrays.

        Returns:
            The components of the result of each outfeed.

        Raises:
            tf.errors.OpError: The program's error.
            ValueError: A component has another shape.
            tf.errors.FailedPreconditionError: This process is a fork of the engine's.
        """
        interrupt.check_not_forked()
        self._check(inputs)
        self.start()
        waiting = self._feed(inputs)
        if waiting.wait(self._timeout_s if self._needs_company else SLICE_S):
            return waiting.result()
        pause = self._timeout_s / DUMMIES_IN_A_TIMEOUT
        while not waiting.wait(pause if self._needs_company else SLICE_S):
            if self._needs_company and self._is_first(waiting):
                self._feed(None)
        return waiting.result()

    def _check(self, inputs: list[Tensor]) -> None:
        """Refuses an element that does not fit, before any of it is fed."""
        feeds = self.application.signature.streamed_inputs
        for feed, value in zip(feeds, inputs, strict=True):
            shape = tuple(value.shape)
            if shape != feed.shape.dimensions:
                # In a graph TensorFlow makes an InvalidArgumentError of it.
                raise ValueError(
                    f"Input `{feed.name}` of engine {self.name} must have the shape "
                    f"{list(feed.shape.dimensions)}, got {list(shape)}."
                )

    def stop(self) -> None:
        """Ends the program for good; waiting calls raise an error."""
        with self._lock:
            self._stopped = True
            program, threads = self._program, self._threads
        if program is None:
            return
        with context.eager_mode():
            program.close()
        for thread in threads:
            thread.join(JOIN_S)

    def _feed(self, inputs: list[Tensor] | None) -> _Waiting:
        """Puts an element into the program's queues; None for zeros."""
        feeds = self.application.signature.streamed_inputs
        values = (
            [tf.zeros(each.spec.shape, each.spec.dtype) for each in feeds]
            if inputs is None
            else inputs
        )
        waiting = _Waiting(self._outfeeds, is_dummy=inputs is None)
        with self._feeding, context.eager_mode():
            with self._lock:
                program, error = self._program, self._error
                if program is None:
                    raise error or tf.errors.AbortedError(
                        None, None, f"Engine {self.name} has ended."
                    )
                if self._outfeeds:
                    for each in self._waiting:
                        each.append(waiting)
            at = 0
            for queue, group in zip(program.feeds, grouped(feeds), strict=True):
                try:
                    queue.enqueue(values[at : at + len(group)])
                except Exception as failure:
                    # Else the next result would be this call's.
                    self._fail(program, failure)
                    break
                at += len(group)
        if not self._outfeeds:
            waiting.end()
        return waiting

    def _is_first(self, waiting: _Waiting) -> bool:
        """Whether no call with an earlier element is waiting."""
        with self._lock:
            calls = (
                next((each for each in queue if not each.is_dummy), None)
                for queue in self._waiting
            )
            return any(first is waiting for first in calls)

    def _run(self, program: Program) -> None:
        """Runs the program until it fails or is stopped; the engine's thread."""
        try:
            with context.eager_mode(), provided.loading():
                while True:
                    program.run()
        except BaseException as error:
            self._fail(program, error)
        finally:
            # A reader whose stream has ended with the program may have started the next
            # one, which would wait for another run.
            with context.eager_mode():
                program.delete_outfeeds()

    def _fail(self, program: Program, error: BaseException) -> None:
        """Raises the error in all waiting calls; the next call restarts the program."""
        with self._lock:
            if self._program is not program:
                return
            self._program = None
            if self._stopped:
                error = tf.errors.CancelledError(
                    None, None, f"Engine {self.name} has been stopped."
                )
            self._error = error
            left = {id(each): each for queue in self._waiting for each in queue}
            self._waiting = []
        with context.eager_mode():
            program.close()
        for each in left.values():
            each.error = error
            each.end()

    def _read(self, program: Program, index: int) -> None:
        """Delivers the results of an outfeed to their calls; a reader's thread."""
        try:
            with context.eager_mode():
                while self._program is program:
                    for row in program.outfeeds[index].stream():
                        self._deliver(program, index, list(row))
        except BaseException as error:
            self._fail(program, error)

    def _deliver(self, program: Program, index: int, row: list[Tensor]) -> None:
        feeds = grouped(self.application.signature.streamed_outputs)[index]
        rows = [row]
        if row[0].shape.rank > len(feeds[0].shape.dimensions):
            # Replicas: row r is the result of replica r, for the r-th of these elements.
            rows = [list(each) for each in zip(*map(tf.unstack, row), strict=True)]
        for tensors in rows:
            with self._lock:
                if self._program is not program or not self._waiting[index]:
                    return
                waiting = self._waiting[index].popleft()
                waiting.parts[index] = tensors
                waiting.missing -= 1
                ended = waiting.missing == 0
            if ended:
                waiting.end()


class _Engines:
    """Engines of this process, by name."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_name: dict[str, _Engine] = {}


_engines = _Engines()


def start(
    name: str, application: Application, inputs: list[Tensor], timeout_s: float
) -> _Engine:
    """Returns the engine of a name, which is created if it does not exist."""
    with _engines.lock:
        engine = _engines.by_name.get(name)
        if engine is None:
            engine = _engines.by_name[name] = _Engine(
                name, application, inputs, timeout_s
            )
    try:
        engine.start()
    except BaseException:
        with _engines.lock:
            _engines.by_name.pop(name, None)
        raise
    return engine


def find(name: str) -> _Engine:
    """Returns the engine of a name.

    Raises:
        tf.errors.FailedPreconditionError: It does not exist.
    """
    with _engines.lock:
        engine = _engines.by_name.get(name)
    if engine is None:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"Engine {name} does not exist. Start it with embedded_runtime_start.",
        )
    return engine


def exists(name: str) -> bool:
    """Whether an engine of this name runs."""
    with _engines.lock:
        return name in _engines.by_name


def stop(name: str) -> None:
    """Stops an engine, if it exists."""
    with _engines.lock:
        engine = _engines.by_name.pop(name, None)
    if engine is not None:
        engine.stop()


@STATE.part("engines")
def _stop_all() -> None:
    with _engines.lock:
        engines = list(_engines.by_name.values())
        _engines.by_name.clear()
    for engine in engines:
        engine.stop()


def _end() -> None:
    ending.begin()  # daemon threads leave their calls without an error
    _stop_all()


# Before TensorFlow's atexit functions: a program running during them can abort the process.
atexit.register(_end)
