r"""Takes an outfeed's results out of the native core: all, one by one, or as they come.

native queue --> Batch --> TakenResults --> a caller's result
\________ HandOver (small results, one by one) ____/
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ipufeed import _native, ending
from ipufeed.queues import interrupt
from ipufeed.queues.enqueued import Stored, Structures, read_stored
from ipufeed.queues.fast_dequeue import HandOver
from ipufeed.queues.hooks import surroundings
from ipufeed.queues.results import Batch, TakenResults

# How long a wait keeps Python from seeing Ctrl-C.
SLICE_S = 0.05

# What a wait of the native core answers: feeds_c_api.cc.
NOTHING, SOMETHING, DELETED, TAKEN = range(4)


class OutfeedReader:
    """The reading half of an IPUOutfeedQueue.

    Args:
        number: The queue's, in the native core.
        name: The queue's, for messages.
        ordinal: The IPU whose programs enqueue.
        is_last: Whether the queue keeps only the last result.

    Attributes:
        structure: Of the last enqueue that was traced; None before the first.

    Threads: any, one at a time.
    """

    def __init__(self, number: int, name: str, ordinal: int, is_last: bool) -> None:
        self.number = number
        self.structures = Structures(name)
        self.structure: Any = None
        self._name = name
        self._ordinal = ordinal
        self._is_last = is_last
        self._stored: Stored | None = None  # of the native queue, read last
        self._taken = TakenResults()
        # Runs of programs whose end a reader has seen: see stream().
        self._runs_seen = 0

    def add(self, structure: Any) -> None:
        """Notes what an enqueue is traced for; ValueError if it is ambiguous."""
        self.structures.add(structure)
        self.structure = structure

    def build_dequeue(self, *, waits: bool) -> Any:
        """Builds the op of a graph that gives what the last enqueue was traced for."""
        import tensorflow as tf

        flat = self._run_dequeue(self.structure, self._ordinal if waits else -1)
        return tf.nest.pack_sequence_as(self.structure, flat)

    @ending.leaves_at_exit
    def dequeue(self, *, waits: bool) -> Any:
        """Takes all results, or the last one; in the structure that they have."""
        import tensorflow as tf

        interrupt.check_not_forked()
        runs = self._native_runs()
        if waits or self._is_last:
            self._wait_until_idle()
        batch = self._take_batch()
        self._runs_seen = max(self._runs_seen, runs)
        if not self._is_last:
            batch = self._taken.all(batch)
        return tf.nest.pack_sequence_as(batch.structure, batch.columns)

    @ending.leaves_at_exit
    def next_row(self, *, waits: bool) -> tuple[Any] | None:
        """Takes the next result, in a tuple; None if there is none now."""
        row = self._taken.row()
        if row is not None or self.structure is None:
            return row
        if surroundings.synthetic_outfeed():
            return None
        interrupt.check_not_forked()
        runs = self._native_runs()
        if waits:
            self._wait_until_idle()
        self._take()
        self._runs_seen = max(self._runs_seen, runs)
        return self._taken.row()

    def stream(self, timeout_s: float | None) -> Iterator[Any]:
        """Yields results as they come, until the program has ended."""
        import tensorflow as tf

        if surroundings.synthetic_outfeed():
            return  # no result will ever come
        if not surroundings.runs_programs():
            # The one result that each look gives while programs are only compiled.
            if self.structure is not None:
                yield self._zeros([])
            return
        entry = _native.entry()
        yield from self._rows()
        # What has failed elsewhere until now does not end this stream.
        ends = entry.ipufeed_outfeed_ends
        seen = self._runs_seen + ends(self.number) - self._native_runs()
        hand_over = HandOver(self)
        while True:
            limit = None if timeout_s is None else time.monotonic() + timeout_s
            while True:
                left = SLICE_S if limit is None else limit - time.monotonic()
                slice_ns = int(max(0.0, min(SLICE_S, left)) * 1e9)
                answer = hand_over.wait(seen, slice_ns)
                if answer != NOTHING:
                    break
                if limit is not None and time.monotonic() >= limit:
                    raise tf.errors.DeadlineExceededError(
                        None,
                        None,
                        f"outfeed queue '{self._name}' got no result for {timeout_s} s.",
                    )
            if answer == DELETED:
                return
            if answer == TAKEN:
                yield hand_over.result()
                continue
            # Before the results: what is enqueued after this belongs to a later look.
            runs, ended = self._native_runs(), ends(self.number)
            self._take()
            yield from self._rows()
            if ended != seen and not entry.ipufeed_outfeed_busy(self.number):
                self._take()
                yield from self._rows()
                self._runs_seen = max(self._runs_seen, runs)
                return
            # Another program began before this one looked: its results are of the stream.
            seen = ended

    def no_results(self) -> Any:
        """Returns what a dequeue gives when nothing has come."""
        return self._zeros([0])

    def clear(self) -> None:
        """Forgets what has been taken."""
        self._taken.clear()

    def _zeros(self, in_front: list[int]) -> Any:
        import tensorflow as tf

        return tf.nest.map_structure(
            lambda spec: tf.zeros([*in_front, *spec.shape], spec.dtype), self.structure
        )

    def _run_dequeue(self, structure: Any, wait_ordinal: int = -1) -> list[Any]:
        """Builds the op that gives results of this structure; in eager mode runs it."""
        import tensorflow as tf

        ops = _native.load()
        specs = tf.nest.flatten(structure)
        arguments = {
            "number": self.number,
            "dtypes": [spec.dtype for spec in specs],
            "shapes": [spec.shape for spec in specs],
            # A result may have the dimension of the replicas in front.
            "replicated": bool(_native.entry().ipufeed_ipus(self._ordinal) > 1),
        }
        with tf.device("/device:CPU:0"):
            if self._is_last:
                synthetic = surroundings.synthetic_outfeed()
                return list(ops.ipufeed_outfeed_last(synthetic=synthetic, **arguments))
            return list(
                ops.ipufeed_outfeed_dequeue(wait_ordinal=wait_ordinal, **arguments)
            )

    @ending.leaves_at_exit
    def _take_batch(self) -> Batch:
        """Takes what the native queue has now, in the structure that it has."""
        import tensorflow as tf

        while True:
            self._stored = stored = read_stored(self.number, self._stored)
            structure = self.structure if stored is None else self.structures.of(stored)
            try:
                columns = self._run_dequeue(structure)
            except tf.errors.InvalidArgumentError as error:
                # The first result may have come since, or the first after a deleter.
                if read_stored(self.number, stored) is not stored:
                    continue
                raise ValueError(error.message) from None
            return Batch(stored.identity if stored else 0, structure, columns)

    def _take(self) -> None:
        if self.structure is not None:
            self._taken.put(self._take_batch())

    def _rows(self) -> Iterator[Any]:
        """Yields what has been taken, one result at a time."""
        while (row := self._taken.row()) is not None:
            yield row[0]

    def _native_runs(self) -> int:
        return int(_native.entry().ipufeed_outfeed_runs(self.number))

    def _wait_until_idle(self) -> None:
        """Waits until no program of the IPU runs; in slices, so that Ctrl-C is seen."""
        wait = _native.entry().ipufeed_outfeed_wait_for_all
        while not wait(self.number, self._ordinal, int(SLICE_S * 1e9)):
            pass
