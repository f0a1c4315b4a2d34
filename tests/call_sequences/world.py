"""Runs calls on real queues and on their models, and compares.

    world = World()
    world.infeed(slot=0, size=6)
    world.outfeed(slot=0)
    world.run(infeed=0, outfeed=0, count=4)
    world.dequeue(slot=0)

A call for a slot that is empty does nothing: calls may be left out of a sequence.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from call_sequences.cancelling import run_cancelled
from call_sequences.checking import END, FAILED, FaultError, call, compare
from call_sequences.model import SHAPES, InfeedModel, OutfeedModel, Signature
from call_sequences.programs import counting, traced
from ipufeed.device.config import config
from ipufeed.device.program import executor
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import system
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.queues.enqueued import read_stored

errors = tf.errors


class World:
    """Infeed queues, outfeed queues, the device, and their models."""

    def __init__(self) -> None:
        self._infeeds: dict[int, tuple[Any, InfeedModel]] = {}
        self._outfeeds: dict[int, tuple[Any, OutfeedModel]] = {}
        self._gates: dict[int, threading.Event] = {}
        self._programs: dict[Any, Any] = {}
        self._next_value = 0
        self._configured = False
        self._ipus = 1
        self._strategy = IPUStrategy()
        self.set_executor("xla")

    def close(self) -> None:
        """Lets go of everything."""
        for slot in list(self._infeeds):
            self._drop(self._infeeds, slot)
        for slot in list(self._outfeeds):
            self._drop(self._outfeeds, slot)
        if self._configured:  # a reset forgets what was compiled
            self.configure(0)
        self.set_executor("xla")

    def infeed(
        self,
        slot: int,
        size: int,
        fails: bool = False,
        dtype: str = "float32",
        shape: str = "scalar",
        depth: int | None = None,
        gated_at: int | None = None,
    ) -> None:
        """Makes a queue and runs its initializer; the one in the slot is dropped."""
        self._drop(self._infeeds, slot)
        model = InfeedModel(
            self._next_value, size, fails, dtype, SHAPES[shape], gated_at
        )
        self._next_value += size + 1
        if gated_at is not None:
            self._gates[slot] = threading.Event()
        dataset = counting(model, self._gates.get(slot))
        self._infeeds[slot] = IPUInfeedQueue(dataset, prefetch_depth=depth), model
        self.start(slot)

    def start(self, slot: int) -> None:
        """Reads the initializer: the dataset starts from its beginning."""
        if slot in self._infeeds:
            queue, model = self._infeeds[slot]
            if model.ready:
                self._open(slot)
            call(lambda: queue.initializer)
            model.start(self._ipus)

    def delete_infeed(self, slot: int) -> None:
        """Reads the deleter."""
        if slot in self._infeeds:
            queue, model = self._infeeds[slot]
            self._open(slot)
            wrong = [] if model.ready else [errors.NotFoundError]
            call(lambda: queue.deleter, [queue], wrong)
            model.ready = False

    def outfeed(self, slot: int, last: bool = False, depth: int = 3) -> None:
        """Makes a queue; the one in the slot is dropped."""
        self._drop(self._outfeeds, slot)
        mode = IPUOutfeedMode.LAST if last else IPUOutfeedMode.ALL
        queue = IPUOutfeedQueue(mode, buffer_depth=depth)
        self._outfeeds[slot] = queue, OutfeedModel(last)

    def delete_outfeed(self, slot: int) -> None:
        """Reads the deleter."""
        if slot in self._outfeeds:
            queue, model = self._outfeeds[slot]
            call(lambda: queue.deleter)
            model.forget()

    def drop(self, kind: str, slot: int) -> None:
        """Lets go of a queue and of the programs that use it, and collects garbage."""
        self._drop(self._infeeds if kind == "infeed" else self._outfeeds, slot)
        gc.collect()

    def configure(self, ipus: int) -> None:
        """A device of `ipus` IPUs; 0: none is configured."""
        system.reset_ipu_configuration()
        if ipus > 0:
            wanted = config.IPUConfig()
            wanted.auto_select_ipus = ipus
            wanted.configure_ipu_system()
        self._configured = ipus > 0
        self._ipus = max(1, ipus)
        self._strategy = IPUStrategy()

    def set_executor(self, name: str) -> None:
        """For the programs that are built from now on."""
        executor.set_executor(name)
        self._executor = name

    def run(
        self,
        outfeed: int,
        count: int,
        infeed: int | None = None,
        then: int | None = None,
        fuse: int | None = None,
        structure: str = "plain",
        dtype: str = "float32",
        shape: str = "scalar",
    ) -> None:
        """Runs a loop that enqueues its elements, or numbers without an infeed.

        then: iterations of a second loop on the same queues. fuse: another infeed, of
        which each iteration takes an element: the body fails where that ends.
        """
        wanted = [slot for slot in (infeed, fuse) if slot is not None]
        if outfeed not in self._outfeeds or not self._infeeds.keys() >= set(wanted):
            return
        sources = [self._infeeds[slot] for slot in wanted]
        one = self._ipus == 1
        # Of several replicas it is a matter of time which of them have enqueued before
        # one fails.
        if not one and (
            self._executor != "xla" or then is not None or fuse is not None
        ):
            return
        if not one and any(model.fails for _, model in sources):
            return
        for slot in wanted:
            self._open(slot)
        if infeed is not None:
            dtype, size = sources[0][1].dtype, sources[0][1].shape
        else:
            size = SHAPES[shape]
        signature = Signature(dtype, size, structure, self._ipus)
        counts = [count] if then is None else [count, then]
        queue, sink = self._outfeeds[outfeed]
        program = self._program(
            None if infeed is None else sources[0][0],
            outfeed,
            None if fuse is None else sources[-1][0],
            signature,
            then is not None,
        )
        numbers = infeed is None
        if program is None:
            return
        wrong = expect([m for _, m in sources], sink, signature, counts, numbers)
        arguments = [tf.constant(each) for each in counts]
        done = call(
            lambda: self._strategy.run(program, arguments),
            [queue, *(each for each, _ in sources)],
            wrong,
        )
        if done is not FAILED and sum(counts) > 0:
            sink.ended = True
        for slot_, (each, model) in zip(wanted, sources, strict=True):
            if self._ipus > 1 and errors.FailedPreconditionError in wrong:
                # Its replicas may have read ahead of the round that was refused.
                self._drop(self._infeeds, slot_)
            else:
                settle(each, model)

    def cancel(self, infeed: int, outfeed: int, count: int) -> None:
        """Runs a loop that comes to the gate of its infeed, and cancels it there."""
        if infeed not in self._gates or outfeed not in self._outfeeds:
            return
        (source, model), gate = self._infeeds[infeed], self._gates[infeed]
        queue, sink = self._outfeeds[outfeed]
        signature = Signature(model.dtype, model.shape, "plain", 1)
        there = (model.gated_at or 0) - model.taken
        waits = not gate.is_set() and model.ready and 0 <= there < count
        if self._ipus > 1 or self._executor != "xla" or not waits:
            return
        if model.size <= (model.gated_at or 0) or model.refuses(1):
            return
        if not sink.takes(signature):
            return
        program = self._program(source, outfeed, None, signature, False)
        if program is None:
            return
        model.replicas = 1
        values = model.take(there) or []
        # A queue that keeps the last result counts none: the program may be cancelled
        # between its last element and the enqueue of that, which fails then.
        given = 0 if sink.last else there
        unsure = values[-1:] if sink.last else []
        for value in values[: there - len(unsure)]:
            sink.put(signature, [value])
        run_cancelled(program, count, source, model.taken, queue, given)
        for value in unsure:
            kept = read_stored(queue._number, None) is not None
            sink.put_or_not(signature, [value], kept)
        gate.set()

    def dequeue(self, slot: int) -> None:
        """Takes all that there is."""
        if slot not in self._outfeeds:
            return
        queue, model = self._outfeeds[slot]
        if model.traced and model.last:
            self._dequeue_last(queue, model)
            return
        found = call(queue.dequeue, [queue])
        model.ended = False
        if not model.traced:
            if found != []:
                raise FaultError(f"[] must come before any enqueue, got {found}")
            return
        results, model.results = model.results, []
        lengths = [len(tensor) for tensor in tf.nest.flatten(found)]
        if set(lengths) != {len(results)}:
            raise FaultError(
                f"{len(results)} results must come, got {lengths}: {results}"
            )
        for i, values in enumerate(results):
            row = tf.nest.map_structure(lambda tensor, i=i: tensor[i], found)
            compare(model, row, values)

    def _dequeue_last(self, queue: Any, model: OutfeedModel) -> None:
        possible = model.take_last()
        rows = [results[0] for results in possible if results]
        none = [errors.FailedPreconditionError] if len(rows) < len(possible) else []
        must, may = ([], none) if rows else (none, [])
        found = call(queue.dequeue, [queue], must, may)
        if found is FAILED:
            return
        for values in rows[1:]:
            try:
                compare(model, found, values)
            except FaultError:
                continue
            return
        compare(model, found, rows[0])

    def iterate(self, slot: int, most: int) -> None:
        """`for` over the queue, left after `most` results."""
        wrong = [ValueError]  # nothing has been enqueued yet
        self._rows(slot, most, iter, wrong)

    def stream(self, slot: int, most: int) -> None:
        """The queue's stream, left after `most` results."""
        wrong = [errors.DeadlineExceededError]
        if slot in self._outfeeds and self._outfeeds[slot][1].ended:
            wrong = []
        self._rows(slot, most, lambda queue: queue.stream(timeout_s=0.002), wrong)

    def _rows(
        self, slot: int, most: int, begin: Callable[[Any], Any], at_the_end: list[Any]
    ) -> None:
        if slot not in self._outfeeds:
            return
        queue, model = self._outfeeds[slot]
        if model.last:
            call(lambda: begin(queue), [], [RuntimeError])
            return
        rows = begin(queue)
        for _ in range(most):
            allowed = [] if model.results else at_the_end
            row = call(lambda: next(rows, END), [queue], [], allowed)
            if row is FAILED:
                return
            if row is END:
                if model.results:
                    raise FaultError(f"the end, and these are left: {model.results}")
                model.ended = False
                return
            if not model.results:
                raise FaultError(f"a result that no program has enqueued: {row}")
            compare(model, row, model.results.pop(0))

    def _program(
        self, infeed: Any, slot: int, fuse: Any, signature: Signature, twice: bool
    ) -> Any:
        """The function, which is built if it is a new one; None if it is refused."""
        queue, model = self._outfeeds[slot]
        key = (infeed, queue, fuse, signature, twice, self._executor)
        if key not in self._programs:
            program = traced(infeed, queue, fuse, signature, twice)
            if any(each.confuses(signature) for each in model.traced):
                nothing = [tf.constant(0)] * (2 if twice else 1)
                done = call(
                    lambda: self._strategy.run(program, nothing),
                    [queue],
                    (),
                    [ValueError],
                )
                if done is FAILED:
                    return None
            self._programs[key] = program
            model.traced.append(signature)
        return self._programs[key]

    def _open(self, slot: int) -> None:
        if slot in self._gates:
            self._gates[slot].set()

    def _drop(self, queues: dict[int, Any], slot: int) -> None:
        if slot not in queues:
            return
        if queues is self._infeeds:
            self._open(slot)
            self._gates.pop(slot, None)
        queue, _ = queues.pop(slot)
        for key in [key for key in self._programs if queue in key]:
            del self._programs[key]


def expect(
    sources: list[InfeedModel],
    sink: OutfeedModel,
    signature: Signature,
    counts: list[int],
    numbers: bool,
) -> list[Any]:
    """Applies a run to the models; the errors of which it must raise one.

    numbers: the first source gives no values, but the loop its counter.
    """
    replicas = signature.replicas
    for loop, count in enumerate(counts):
        for i in range(count):
            values = [float(i)] * replicas
            for number, model in enumerate(sources):
                if not model.ready or model.refuses(replicas):
                    return [errors.FailedPreconditionError]
                model.replicas = replicas
                taken = model.take(replicas)
                if taken is None:
                    failed = errors.FailedPreconditionError
                    return [failed if model.fails else errors.OutOfRangeError]
                if number == 0 and not numbers:
                    values = taken
                if i == 0 and loop == 0:
                    model.perhaps += replicas  # until the first result is taken
            if not sink.takes(signature):
                refused = [errors.FailedPreconditionError]
                # One replica may come to the end before the others have a whole result.
                return refused if replicas == 1 else [*refused, errors.OutOfRangeError]
            for model in sources:
                model.perhaps = 0
            sink.put(signature, [value + 1000.0 * loop for value in values])
    return []


def settle(queue: Any, model: InfeedModel) -> None:
    """Compares what the queue has counted; the model goes on with that."""
    if not model.ready:
        return
    taken = queue.stats().elements
    if not model.taken - model.perhaps <= taken <= model.taken:
        raise FaultError(
            f"infeed queue '{queue._id}': {model.taken} elements must be taken (or up to "
            f"{model.perhaps} fewer), and {taken} are"
        )
    model.taken, model.perhaps = taken, 0
