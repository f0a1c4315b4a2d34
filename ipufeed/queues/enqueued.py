"""Matches an outfeed's stored results with the structure that was enqueued.

    enqueue() is traced --> Structures   every structure, of tf.TensorSpecs
    a program runs      --> read_stored  dtypes, shapes and replicas of the native results
    dequeue()           <-- Structures.of(stored)

The native queue has the dtypes and shapes of its results, Python the nest to pack them
into. A trace does not determine what is stored: it may fail, or its program may never run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipufeed import _native
from ipufeed.tf_types import Spec, TensorSpec

_NUMBERS = 64  # sufficient for most signatures at the first call


@dataclass(frozen=True)
class Stored:
    """The signature of an outfeed's results, from the first one until its deletion.

    Attributes:
        identity: A number that is unique among outfeeds.
        replicas: The number of replicas whose parts make up each result.
        specs: The spec of each tensor of one replica's part of a result.
    """

    identity: int
    replicas: int
    specs: tuple[TensorSpec, ...]

    def describe(self) -> str:
        """Returns dtypes, shapes and replicas as text for a message."""
        each = f" from each of {self.replicas} replicas" if self.replicas > 1 else ""
        return _describe(self.specs) + each


def read_stored(number: int, known: Stored | None) -> Stored | None:
    """Returns the signature of an outfeed's results; None before its first.

    Args:
        number: The outfeed's number.
        known: The last call's return value: returned again unless the signature changed.
    """
    size = _NUMBERS
    while True:
        numbers = (ctypes.c_int64 * size)()
        count = _native.entry().ipufeed_outfeed_signature(number, numbers, size)
        if count <= size:
            break
        size = count
    if count == 0:
        return None
    if known is not None and known.identity == numbers[0]:
        return known
    return _parsed(numbers[:count])


def _parsed(numbers: list[int]) -> Stored:
    identity, replicas, *rest = numbers
    specs = []
    while rest:
        dtype, rank, *rest = rest
        specs.append(tf.TensorSpec(rest[:rank], tf.as_dtype(dtype)))
        rest = rest[rank:]
    return Stored(identity, replicas, tuple(specs))


def _describe(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(f"{spec.dtype.name} {spec.shape}" for spec in specs)


class Structures:
    """The structures of the enqueues to one queue that were traced.

    The same tensors in two different nests are refused: the nest of a result would be
    ambiguous.

    Threads: add() and forget() on one at a time; of() on any.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: list[Spec] = []  # replaced, never changed: readers need no lock
        self._replaceable: list[Spec] = []
        # The last result of of(): the structures it searched, its argument, its result.
        self._found: tuple[list[Spec], Stored, Spec] | None = None

    def add(self, structure: Spec) -> None:
        """Adds the structure of an enqueue.

        Raises:
            ValueError: The same tensors in another nest than before.
        """
        specs = tf.nest.flatten(structure)
        rest = []
        for known in self._known:
            if not _alike(tf.nest.flatten(known), specs):
                rest.append(known)
            elif not _same_nest(known, structure) and not any(
                known is old for old in self._replaceable
            ):
                raise ValueError(
                    f"outfeed queue '{self._name}' was given {_shown(known)} before, and "
                    f"now gets {_shown(structure)}: the same tensors in another structure "
                    "than before, so that its results would be ambiguous. Use "
                    "another queue, or the queue's `deleter` first."
                )
        self._known = [*rest, structure]

    def forget(self) -> None:
        """Allows later enqueues to replace the structures added so far."""
        self._replaceable = self._known

    def of(self, stored: Stored) -> Spec:
        """Returns the structure of these results, with their shapes.

        Raises:
            ValueError: No traced enqueue has these dtypes and shapes.
        """
        structures, found = self._known, self._found
        if found is not None and found[0] is structures and found[1] is stored:
            return found[2]
        for known in reversed(structures):
            if _alike(tf.nest.flatten(known), stored.specs):
                structure = tf.nest.pack_sequence_as(known, list(stored.specs))
                self._found = structures, stored, structure
                return structure
        traced = " or ".join(_describe(tf.nest.flatten(known)) for known in self._known)
        raise ValueError(
            f"The results of outfeed queue '{self._name}' are {stored.describe()}, and its "
            f"`enqueue` was called for {traced} only. Run the queue's `deleter` to forget "
            "them, or use another queue."
        )


def _alike(first: Sequence[TensorSpec], second: Sequence[TensorSpec]) -> bool:
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape.is_compatible_with(b.shape)
        for a, b in zip(first, second, strict=True)
    )


def _same_nest(first: Spec, second: Spec) -> bool:
    try:
        tf.nest.assert_same_structure(first, second)
    except (TypeError, ValueError):
        return False
    return True


def _shown(structure: Spec) -> str:
    return str(
        tf.nest.map_structure(lambda s: f"{s.dtype.name}{s.shape}", structure)
    ).replace("'", "")
