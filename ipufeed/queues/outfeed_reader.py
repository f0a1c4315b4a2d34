"""Reads an outfeed's results from the native core: all, the next, the last, or a stream.

    native queue --ipufeed_outfeed_take--> tensors --> the structure that was enqueued

One native call returns tensors of any size without an op and without a copy. It describes
each as DLPack's DLManagedTensor, which TensorFlow takes over: the memory is freed with the
last tensor that refers to it. Results that were not read stay in the native queue. Graphs
read with ops (cc/feeds/outfeed_ops.cc).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python import pywrap_tfe

from ipufeed import _native, ending
from ipufeed.queues import interrupt
from ipufeed.queues.eager_calls import plain_errors
from ipufeed.queues.enqueued import Stored, Structures, read_stored
from ipufeed.queues.hooks import device_hooks
from ipufeed.tf_types import Nest, Spec, Tensor, TensorSpec

# The longest native wait: Python handles Ctrl-C in between.
SLICE_S = 0.05
SLICE_NS = int(SLICE_S * 1e9)

# The `how` and the return values of ipufeed_outfeed_take: cc/capi/results_c_api.cc.
NEXT, ALL, LAST = range(3)
NOTHING, ENDED, DELETED, TAKEN, OTHERS = range(5)


class _Known(NamedTuple):
    """The cached signature of a native queue's results.

    Attributes:
        stored: The signature; None before the first result.
        structure: The structure of one result.
        is_single: Whether the structure is one tensor.
        size: The number of a result's tensors.
        addresses: The ctypes array type for their addresses, which a native call writes.
    """

    stored: Stored | None
    structure: Spec
    is_single: bool
    size: int
    addresses: type[ctypes.Array[ctypes.c_void_p]]


_UNKNOWN = _Known(None, None, False, 0, ctypes.c_void_p * 0)


class OutfeedReader:
    """The reading half of an IPUOutfeedQueue.

    Args:
        number: The queue's number in the native core.
        name: The queue's name, for messages.
        ordinal: The IPU whose programs enqueue.
        is_last: Whether the queue keeps only the last result.

    Attributes:
        structure: That of the last enqueue that was traced; None before the first.

    Threads: any, one at a time.
    """

    def __init__(self, number: int, name: str, ordinal: int, is_last: bool) -> None:
        self.number = number
        self.structures = Structures(name)
        self.structure: Spec | None = None
        self._name = name
        self._ordinal = ordinal
        self._is_last = is_last
        # Replaced, never changed: readers need no lock.
        self._known = _UNKNOWN
        # The structure and replicas of deleted results: a trace may have unknown sizes.
        self._deleted: tuple[Spec, int] | None = None
        # The number of runs whose end a reader has observed, see stream(), and the
        # outfeed whose runs these are: a `deleter` makes the next run create another.
        self._runs_seen = 0
        self._outfeed = 0

    def add(self, structure: Spec) -> None:
        """Adds the structure of a traced enqueue; ValueError if it is ambiguous."""
        self.structures.add(structure)
        self.structure = structure
        self._deleted = None

    def delete(self, delete: Callable[[], object]) -> None:
        """Deletes the results by `delete`; a dequeue without results keeps their shapes."""
        stored = read_stored(self.number, self._known.stored)
        delete()
        if stored is not None:
            with contextlib.suppress(ValueError):  # the shapes of no traced enqueue
                self._deleted = self.structures.of(stored), stored.replicas

    def build_dequeue(self, *, waits: bool) -> Nest:
        """Builds a graph's dequeue op, with the structure of the last traced enqueue."""
        flat = self._build_flat(self._ordinal if waits else -1)
        return tf.nest.pack_sequence_as(self.structure, flat)

    @ending.leaves_at_exit
    def dequeue(self, *, waits: bool) -> Nest:
        """Returns all results, or the last one, in their structure."""
        interrupt.check_not_forked()
        runs = self._native_runs()
        if waits or self._is_last:
            self._wait_until_idle()
        found = self._take_last() if self._is_last else self._take_all()
        self._note_seen(runs)
        return found

    @ending.leaves_at_exit
    def next_row(self, given: int, *, waits: bool) -> tuple[Nest] | None:
        """Returns the next result in a tuple; None if none is stored.

        Args:
            given: The results that the iterator has returned.
            waits: Whether to wait until the IPU's program has ended.
        """
        if self.structure is None:
            return None
        interrupt.check_not_forked()
        # First what is stored, whether or not a run has ended.
        answer, result = self._take(NEXT, 0, 0)
        if answer == TAKEN:
            return (result,)
        if device_hooks.synthetic_outfeed():
            return None
        if not device_hooks.runs_programs():
            return None if given else (self._zeros([]),)
        runs = self._native_runs()
        if waits:
            self._wait_until_idle()
        answer, result = self._take(NEXT, 0, 0)
        if answer == TAKEN:
            return (result,)
        self._note_seen(runs)
        return None

    def stream(self, timeout_s: float | None) -> Iterator[Nest]:
        """Yields results as they are enqueued, until the program has ended."""
        if device_hooks.synthetic_outfeed():
            return  # there are no results
        if not device_hooks.runs_programs():
            # The one result of each read while programs are only compiled.
            if self.structure is not None:
                yield self._zeros([])
            return
        # Runs that failed elsewhere before this do not end the stream.
        seen = self._seen() + self._native_ends() - self._native_runs()
        while True:
            answer, result = self._wait_for_next(seen, timeout_s)
            if answer == DELETED:
                return
            if answer == TAKEN:
                yield result
                continue
            # Read before the queue: what is enqueued after this is of a later run.
            runs, ended = self._native_runs(), self._native_ends()
            if _native.entry().ipufeed_outfeed_busy(self.number):
                # Another program has started since: its results belong to the stream.
                seen = ended
                continue
            answer, result = self._take(NEXT, ended, 0)
            if answer == TAKEN:
                yield result
                continue
            self._note_seen(runs)
            return

    def no_results(self) -> Nest:
        """Returns the value of a dequeue without results."""
        return self._zeros([0])

    def _zeros(self, outer: list[int], structure: Spec | None = None) -> Nest:
        def zeros(spec: TensorSpec) -> Tensor:
            shape = spec.shape
            if shape.rank is not None and outer[:1] == [0]:
                # Without a result, for example when a program's enqueue was refused.
                shape = [0 if size is None else size for size in shape.as_list()]
            elif not shape.is_fully_defined():
                raise ValueError(
                    f"Outfeed with id='{self._name}': the shape {shape} is not fully "
                    "defined."
                )
            return tf.zeros([*outer, *shape], spec.dtype)

        with tf.device("/device:CPU:0"):
            return tf.nest.map_structure(
                zeros, self.structure if structure is None else structure
            )

    def _build_flat(self, wait_ordinal: int) -> list[Tensor]:
        ops = _native.load()
        specs = tf.nest.flatten(self.structure)
        arguments = {
            "number": self.number,
            "dtypes": [spec.dtype for spec in specs],
            "shapes": [spec.shape for spec in specs],
            # A result may have the replicas as its outermost dimension.
            "replicated": bool(_native.entry().ipufeed_ipus(self._ordinal) > 1),
        }
        with plain_errors(), tf.device("/device:CPU:0"):
            if self._is_last:
                synthetic = device_hooks.synthetic_outfeed()
                return list(ops.ipufeed_outfeed_last(synthetic=synthetic, **arguments))
            return list(
                ops.ipufeed_outfeed_dequeue(wait_ordinal=wait_ordinal, **arguments)
            )

    def _take_all(self) -> Nest:
        if not device_hooks.runs_programs():
            return self._zeros([1])
        answer, result = self._take(ALL, 0, 0)
        if answer == TAKEN:
            return result
        replicas = int(_native.entry().ipufeed_outfeed_replicas(self.number))
        deleted = self._deleted
        structure, replicas = deleted or (self.structure, replicas)
        return self._zeros([0, replicas] if replicas > 1 else [0], structure)

    def _take_last(self) -> Nest:
        if device_hooks.synthetic_outfeed():
            # Graphcore's text, including its spelling.
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "Trying to get the last value from an outfeed queue when using synthethic "
                "data. This is not supported.",
            )
        if not device_hooks.runs_programs():
            return self._zeros([])
        while True:
            answer, result = self._take(LAST, 0, SLICE_NS)
            if answer == TAKEN:
                return result

    def _wait_for_next(self, seen: int, timeout_s: float | None) -> tuple[int, Nest]:
        """Waits, in slices, for a result or until the number of ends is not `seen`."""
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            slice_ns = SLICE_NS
            if limit is not None:
                left = max(0.0, limit - time.monotonic())
                slice_ns = int(min(SLICE_S, left) * 1e9)
            answer, result = self._take(NEXT, seen, slice_ns)
            if answer != NOTHING:
                return answer, result
            if limit is not None and time.monotonic() >= limit:
                raise tf.errors.DeadlineExceededError(
                    None,
                    None,
                    f"outfeed queue '{self._name}' got no result for {timeout_s} s.",
                )

    def _take(self, how: int, seen: int, timeout_ns: int) -> tuple[int, Nest]:
        """Takes results natively: returns the return code, and the results packed."""
        take = _native.entry().ipufeed_outfeed_take
        while True:
            known = self._known
            stored = known.stored
            identity = 0 if stored is None else stored.identity
            addresses = known.addresses()
            answer = take(
                self.number, how, identity, seen, timeout_ns, addresses, known.size
            )
            if answer == TAKEN:
                flat = _tensors_at(addresses)
                if known.is_single:
                    return answer, flat[0]
                return answer, tf.nest.pack_sequence_as(known.structure, flat)
            if answer != OTHERS:
                return answer, None
            self._read_known(known)

    def _read_known(self, known: _Known) -> None:
        """Updates the cached signature.

        Raises:
            ValueError: No traced enqueue matches the results. They stay in the queue.
        """
        stored = read_stored(self.number, known.stored)
        if stored is None:
            self._known = _UNKNOWN
            return
        structure = self.structures.of(stored)
        is_single = structure is stored.specs[0]
        size = len(stored.specs)
        self._known = _Known(stored, structure, is_single, size, ctypes.c_void_p * size)

    def _seen(self) -> int:
        """Returns the number of runs of the outfeed whose end a reader has observed."""
        outfeed = int(_native.entry().ipufeed_outfeed_id(self.number))
        if outfeed != self._outfeed:
            self._outfeed, self._runs_seen = outfeed, 0
        return self._runs_seen

    def _note_seen(self, runs: int) -> None:
        self._runs_seen = max(self._seen(), runs)

    def _native_runs(self) -> int:
        return int(_native.entry().ipufeed_outfeed_runs(self.number))

    def _native_ends(self) -> int:
        return int(_native.entry().ipufeed_outfeed_ends(self.number))

    def _wait_until_idle(self) -> None:
        """Waits until no program of the IPU runs; in slices, so that Ctrl-C works."""
        wait = _native.entry().ipufeed_outfeed_wait_for_all
        while not wait(self.number, self._ordinal, SLICE_NS):
            pass


def _tensors_at(addresses: ctypes.Array[ctypes.c_void_p]) -> list[Tensor]:
    """Returns host tensors of the descriptions at these addresses, and frees these."""
    new_capsule, from_capsule, context = _dlpack()
    made: list[Tensor] = []
    try:
        for address in addresses:
            capsule = new_capsule(address, b"dltensor", None)
            made.append(from_capsule(capsule, context))
    except BaseException:
        for address in addresses[len(made) :]:
            _native.entry().ipufeed_free_tensor(address)
        raise
    return made


@functools.cache
def _dlpack() -> tuple[Callable[..., object], Callable[..., Tensor], object]:
    """Returns PyCapsule_New, TFE_FromDlpackCapsule, and the latter's eager context.

    tf.experimental.dlpack.from_dlpack is the second one, with a lookup of the third.
    """
    from tensorflow.python.eager import context

    context.ensure_initialized()
    # A separate function: all modules share the types of ctypes.pythonapi's functions.
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )
    new_capsule = kind(("PyCapsule_New", ctypes.pythonapi))
    return new_capsule, pywrap_tfe.TFE_FromDlpackCapsule, context.context()._handle
