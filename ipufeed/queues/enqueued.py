"""What is in an outfeed, and in which structure a program enqueued it.

    enqueue() is traced --> Structures   every structure, of tf.TensorSpecs
    a program runs      --> read_stored  dtypes, shapes and replicas of the native results
    dequeue()           <-- Structures.of(stored)

The native queue knows what its results are, and Python which nest they belong into. A
trace says nothing of what is stored: it may fail, or its program may never run.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ipufeed import _native

_NUMBERS = 64  # enough for most signatures at the first call


@dataclass(frozen=True)
class Stored:
    """What the results of an outfeed are, from its first one until its deletion.

    Attributes:
        identity: A number that no other outfeed has.
        replicas: How many replicas' parts make each result.
        specs: A tf.TensorSpec for each tensor of one replica's part of a result.
    """

    identity: int
    replicas: int
    specs: tuple[Any, ...]

    def describe(self) -> str:
        """For a message."""
        each = f" from each of {self.replicas} replicas" if self.replicas > 1 else ""
        return describe(self.specs) + each


def read_stored(number: int, known: Stored | None) -> Stored | None:
    """What the results of an outfeed are; None before its first.

    Args:
        number: The outfeed's.
        known: What the last call has returned: given back unless it has changed.
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
    import tensorflow as tf

    identity, replicas, *rest = numbers
    specs = []
    while rest:
        dtype, rank, *rest = rest
        specs.append(tf.TensorSpec(rest[:rank], tf.as_dtype(dtype)))
        rest = rest[rank:]
    return Stored(identity, replicas, tuple(specs))


def describe(specs: Any) -> str:
    """Dtypes and shapes, for a message."""
    return ", ".join(f"{spec.dtype.name} {spec.shape}" for spec in specs)


class Structures:
    """The structures that programs were traced to enqueue to one queue.

    Two of the same tensors in different nests are refused: of a result it would be unknown
    in which of them it belongs.

    Threads: add() and forget() on one at a time; of() on any.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: list[Any] = []  # replaced, never changed: readers need no lock
        self._replaceable: list[Any] = []
        # What of() has found last: of which structures, for what, and which.
        self._found: tuple[list[Any], Stored, Any] | None = None

    def add(self, structure: Any) -> None:
        """Notes what is being enqueued, a nest of tf.TensorSpecs.

        Raises:
            ValueError: The same tensors in another nest than before.
        """
        import tensorflow as tf

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
        """From now on the structures known so far may be replaced."""
        self._replaceable = self._known

    def of(self, stored: Stored) -> Any:
        """The structure of these results, with their shapes.

        Raises:
            ValueError: No program was traced that enqueues such.
        """
        import tensorflow as tf

        structures, found = self._known, self._found
        if found is not None and found[0] is structures and found[1] is stored:
            return found[2]
        for known in reversed(structures):
            if _alike(tf.nest.flatten(known), stored.specs):
                structure = tf.nest.pack_sequence_as(known, list(stored.specs))
                self._found = structures, stored, structure
                return structure
        traced = " or ".join(describe(tf.nest.flatten(known)) for known in self._known)
        raise ValueError(
            f"The results of outfeed queue '{self._name}' are {stored.describe()}, and its "
            f"`enqueue` was called for {traced} only. Run the queue's `deleter` to forget "
            "them, or use another queue."
        )


def _alike(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape.is_compatible_with(b.shape)
        for a, b in zip(first, second, strict=True)
    )


def _same_nest(first: Any, second: Any) -> bool:
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(first, second)
    except (TypeError, ValueError):
        return False
    return True


def _shown(structure: Any) -> str:
    import tensorflow as tf

    return str(
        tf.nest.map_structure(lambda s: f"{s.dtype.name}{s.shape}", structure)
    ).replace("'", "")
