"""IPUOutfeedQueue: results of programs on an IPU, for the host."""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
import numbers
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

import tensorflow as tf

from ipufeed import _native
from ipufeed.checks import check_flags, flags_checked
from ipufeed.queues import eager_calls, interrupt
from ipufeed.queues.arguments import (
    check_buffer_depth,
    drop_old_arguments,
    named_by_position,
)
from ipufeed.queues.chain import host_number, put_token, take_token, with_outer
from ipufeed.queues.eager_calls import plain_errors
from ipufeed.queues.hooks import checked_ordinal, device_hooks
from ipufeed.queues.infeed import (
    cannot_be_pickled,
    stay_with_graph,
    warn_of_latency,
)
from ipufeed.queues.outfeed_reader import OutfeedReader
from ipufeed.queues.placement import check_placement
from ipufeed.queues.stats import QueueStats, read_stats
from ipufeed.queues.structure import as_tensors, check_results
from ipufeed.tf_types import ControlContext, Graph, Nest, Operation, Spec

_numbers = itertools.count()


class IPUOutfeedMode(enum.Enum):
    """Which results a dequeue returns.

    ALL: all since the last dequeue, stacked. LAST: only the last one.
    """

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """Stores what the programs of one IPU enqueue; the host reads it at any time.

        queue = IPUOutfeedQueue()
        loops.repeat(100, body)        # body: return queue.enqueue({"loss": loss})
        results = queue.dequeue()      # {"loss": [100]}

    Args:
        outfeed_mode: ALL (the default) or LAST.
        device_ordinal: The IPU whose programs use it; others are refused. Default: that of
            the current IPUStrategy, else 0.
        buffer_depth: The capacity of the ring between the program and the host, in
            elements, in [1, 65536]; 32 bytes each before the first result. Results that
            do not fit into the ring are kept behind it.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.

    Raises:
        ValueError: An argument is of another type or out of range.

    Threads: enqueue on the one thread that builds a graph; everything else on any thread,
        also while programs run. Each result goes to one reader; one reader at a time gets
        them in order.

    Source: Graphcore's IPUOutfeedQueue, whose interface this is, with `stream` and
        `stats` added.
    """

    @named_by_position(0, "outfeed_mode")
    @flags_checked
    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None:
        internal_id = kwargs.pop("_internal_id", None)
        every = kwargs.pop("outfeed_all", None)  # of older releases
        if every is not None and outfeed_mode is None:
            check_flags(outfeed_all=every)
            outfeed_mode = IPUOutfeedMode.ALL if every else IPUOutfeedMode.LAST
        drop_old_arguments(
            kwargs,
            "IPUOutfeedQueue",
            "feed_name",
            "replication_factor",
            "io_batch_size",
        )
        if outfeed_mode is None:
            outfeed_mode = IPUOutfeedMode.ALL
        if not isinstance(outfeed_mode, IPUOutfeedMode):
            raise ValueError(
                "Expected `outfeed_mode` value to be of "
                "`ipu_outfeed_queue.IPUOutfeedMode` type, but is "
                f"{type(outfeed_mode).__name__}."
            )
        self._buffer_depth = check_buffer_depth(buffer_depth)
        self._outfeed_mode = outfeed_mode
        self._device_ordinal = checked_ordinal(device_ordinal)
        warn_of_latency("IPUOutfeedQueue", optimise_latency)
        self._number = next(_numbers)
        self._id = str(self._number if internal_id is None else internal_id)
        _native.entry().ipufeed_outfeed_new(
            self._number,
            self._id.encode(),
            outfeed_mode is IPUOutfeedMode.LAST,
            self._buffer_depth,
            self._device_ordinal,
        )
        interrupt.watch()
        weakref.finalize(self, _forget, self._number).atexit = False
        # Graphs that enqueue, their outer graphs, and bodies that enqueue.
        self._graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
        self._around: weakref.WeakSet[Graph] = weakref.WeakSet()
        self._bodies: weakref.WeakSet[Graph | ControlContext] = weakref.WeakSet()
        self._enqueuing_thread: int | None = None
        self._why_empty = ""  # a sentence of the error of a dequeue without an enqueue
        self._reader = OutfeedReader(
            self._number,
            self._id,
            self._device_ordinal,
            outfeed_mode is IPUOutfeedMode.LAST,
        )

    @property
    def enqueued(self) -> bool:
        """Whether the current graph enqueues to this queue.

        True also if an outer graph does, or a function that the graph calls. On another
        thread than the enqueuing one: whether any graph does.
        """
        if self._enqueuing_thread is None:
            return False
        if threading.get_ident() != self._enqueuing_thread or tf.executing_eagerly():
            return True
        graph = tf.compat.v1.get_default_graph()
        if graph in self._around:
            return True
        return any(each in self._graphs for each in with_outer(graph))

    def enqueue(self, tensors: Nest) -> Operation | None:
        """Builds the op that enqueues `tensors` for the host.

        Args:
            tensors: A tensor, or any structure of tensors; other values are converted.
                Each must be of int32, float32, float16, bool, int8 or uint8, and have at
                most 252 dimensions, none of them of size 0.

        Returns:
            The op. In a version 1 graph return it from the loop's body or make it a
            control dependency; inside a tf.function it always runs.

        Raises:
            ValueError: The same body (of a program, loop, branch or function) enqueues to
                this queue already (other bodies may; their results are in program order).
                Or the op is for another IPU than the queue's; or the same tensors are in
                another structure than before, without a `deleter` since.
            tf.errors.InvalidArgumentError: Too many dimensions; at the run: one of size 0.
            tf.errors.FailedPreconditionError: A dtype that feeds do not carry. At the
                run: tensors of other dtypes, shapes or replicas than the queue's results
                so far, without a `deleter` since.
        """
        eager = tf.executing_eagerly()
        graph = None if eager else tf.compat.v1.get_default_graph()
        body = None if graph is None else graph._get_control_flow_context() or graph
        if body is not None and body in self._bodies:
            raise ValueError(
                "An outfeed can only be enqueued once in the same body of a program, loop, "
                f"branch or function, and this one enqueues to outfeed queue '{self._id}' "
                "already. Enqueue a tuple of all tensors once, or use a queue for each."
            )
        check_placement(f"Outfeed queue '{self._id}'", self._device_ordinal)
        tensors = as_tensors(tensors, f"Outfeed queue '{self._id}'")
        flat = tf.nest.flatten(tensors)
        if not flat:
            raise ValueError(
                f"Outfeed queue '{self._id}' was given no tensor to enqueue: {tensors!r}."
            )
        check_results(flat, self._id)
        structure = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), tensors
        )
        self._reader.add(structure)
        stay_with_graph(self)
        self._enqueuing_thread = threading.get_ident()
        if graph is not None:
            self._graphs.add(graph)
            self._around.update(with_outer(graph))
            self._bodies.add(body)
        if device_hooks.synthetic_outfeed():
            if self._outfeed_mode is IPUOutfeedMode.LAST:
                warnings.warn(
                    f"Outfeed queue '{self._id}' has the mode LAST, and the data are "
                    "synthetic: there is no last value, and `dequeue` fails.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return None if eager else tf.no_op()
        token = _native.load().ipufeed_enqueue(
            flat,
            host_number(self._number, self),
            take_token(),
            last=self._outfeed_mode is IPUOutfeedMode.LAST,
            capacity=self._buffer_depth,
        )
        put_token(token)
        if eager:
            eager_calls.end_eager_call()
            return None
        return token.op

    def dequeue(self, wait_for_completion: bool = False) -> Nest:
        """Returns the programs' results, in the structure that was enqueued.

        In eager mode the structure is that of the stored results; the op of a graph has
        the structure of the last enqueue that was traced before it.

        ALL: every result since the last dequeue, in order, each tensor [n, *shape]; n is 0
        without a new result, as before the first run and after the `deleter`. LAST: the
        last result, once its program has ended. Each result of a program with R > 1
        replicas is [R, *shape].

        Args:
            wait_for_completion: Wait until the IPU's program has ended. In eager mode the
                thread that built the program always waits.

        Returns:
            The results: tensors with values in eager mode, in a graph tensors to run. In
            eager mode an empty list, as in Graphcore's, before the first enqueue is
            traced: neither the structure nor the shapes are known. So a thread may poll
            the queue before there is a program.

        Raises:
            TypeError: `wait_for_completion` is not a bool.
            ValueError: In a graph: no program enqueues to this queue. The results have
                other dtypes or shapes than any traced enqueue; they stay in the queue.
            tf.errors.InvalidArgumentError: In a graph, at the run: the results do not
                match the op's dtypes and shapes. They stay in the queue.
            tf.errors.FailedPreconditionError: LAST, and there is no result since the last
                call, or the data are synthetic. In a graph: at the run.
        """
        if wait_for_completion is not False:
            check_flags(wait_for_completion=wait_for_completion)
        eager = tf.executing_eagerly()
        if self._reader.structure is None:
            if eager:
                return []
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued. No program that "
                f"enqueues to outfeed queue '{self._id}' has been built.{self._why_empty}"
            )
        gives_all = self._outfeed_mode is IPUOutfeedMode.ALL
        if gives_all and device_hooks.synthetic_outfeed():
            return self._reader.no_results()
        waits = bool(wait_for_completion)
        if not eager:
            stay_with_graph(self)
            return self._reader.build_dequeue(waits=waits)
        return self._reader.dequeue(waits=waits or self._is_enqueuing_thread())

    @property
    def deleter(self) -> Operation | None:
        """Drops the queue's results. In a graph an op; in eager mode the access runs it.

        Later results may have other dtypes, shapes, replicas and structures.

        Raises:
            tf.errors.FailedPreconditionError: At the run: a program uses the queue.
        """

        def delete() -> Operation:
            with plain_errors(), tf.device("/device:CPU:0"):
                return _native.load().ipufeed_outfeed_delete(number=self._number)

        if tf.executing_eagerly():
            self._reader.delete(delete)
            self._reader.structures.forget()
            return None
        op = delete()
        self._reader.structures.forget()
        stay_with_graph(self)
        return op

    def stream(self, timeout_s: float | None = None) -> Iterator[Nest]:
        """Yields each result as soon as it is enqueued, until the program ends.

        The thread sleeps between results. A stream that starts before its program waits
        for it. It ends with the program, also a failed one, after the results enqueued
        before.

            for result in queue.stream():
                print(result["loss"].numpy())

        Args:
            timeout_s: The longest wait for the next result, in seconds, at least 0.
                Default: no bound.

        Yields:
            One result in the structure that was enqueued, with the shapes enqueued.

        Raises:
            RuntimeError: Not in eager mode, or the mode is LAST.
            ValueError: `timeout_s` is negative or not a number.
            tf.errors.DeadlineExceededError: No result for `timeout_s`. A new stream
                continues with the next result.

        Threads: any, one at a time; the first reader gets a result.
        """
        self._check_iterable("streamed")
        interrupt.check_not_forked()
        if timeout_s is not None and (
            isinstance(timeout_s, bool)
            or not isinstance(timeout_s, numbers.Real)
            or math.isnan(timeout_s)
            or timeout_s < 0
        ):
            raise ValueError(
                f"timeout_s must be a number of seconds >= 0, got {timeout_s!r}."
            )
        return self._reader.stream(timeout_s)

    def stats(self) -> QueueStats:
        """Returns the counters of this queue."""
        interrupt.check_not_forked()
        return read_stats("outfeed", self._number, self._id)

    def __iter__(self) -> IPUOutfeedQueueIterator:
        self._check_iterable("iterated over")
        return IPUOutfeedQueueIterator(self)

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled("IPUOutfeedQueue")

    def _check_iterable(self, how: str) -> None:
        if not tf.executing_eagerly():
            raise RuntimeError(f"IPUOutfeedQueue can only be {how} in eager mode.")
        if self._outfeed_mode is not IPUOutfeedMode.ALL:
            raise RuntimeError(
                f"IPUOutfeedQueue can only be {how} if the `outfeed_mode` is set to "
                "'IPUOutfeedMode.ALL'."
            )

    @property
    def _structure(self) -> Spec | None:
        return self._reader.structure

    def _is_enqueuing_thread(self) -> bool:
        return threading.get_ident() == self._enqueuing_thread

    def _next_row(self, given: int) -> tuple[Nest] | None:
        return self._reader.next_row(given, waits=self._is_enqueuing_thread())


class IPUOutfeedQueueIterator:
    """Yields the stored results one by one, and stops when none is left.

    A further `for` continues with the next result.

    Raises:
        TypeError: `queue` is not an IPUOutfeedQueue.
    """

    def __init__(self, queue: IPUOutfeedQueue) -> None:
        if not isinstance(queue, IPUOutfeedQueue):
            raise TypeError(
                f"`queue` must be an IPUOutfeedQueue, got {type(queue).__name__}."
            )
        self._queue, self._given = queue, 0

    def __iter__(self) -> IPUOutfeedQueueIterator:
        return self

    def __next__(self) -> Nest:
        row = self._queue._next_row(self._given)
        if row is None:
            raise StopIteration
        self._given += 1
        return row[0]


def _forget(number: int) -> None:
    """Deletes the outfeed of a queue that was collected, without an op (see infeed)."""
    with contextlib.suppress(ImportError):
        _native.entry().ipufeed_outfeed_forget(number)
