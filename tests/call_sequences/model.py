"""The queues as lists: what is left of a dataset, and which results are to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES: dict[str, tuple[int, ...]] = {"scalar": (), "vector": (3,), "large": (5000,)}
STRUCTURES = ("plain", "dict", "pair")


@dataclass(frozen=True)
class Signature:
    """What one result is: dtype and shape of each tensor, structure, replicas."""

    dtype: str
    shape: tuple[int, ...]
    structure: str
    replicas: int

    @property
    def count(self) -> int:
        """Tensors in a result."""
        return 1 if self.structure == "plain" else 2

    def fits(self, other: Signature) -> bool:
        """Whether results of both may be in one queue: the tensors are the same."""
        ours = (self.dtype, self.shape, self.count, self.replicas)
        return ours == (other.dtype, other.shape, other.count, other.replicas)

    def confuses(self, other: Signature) -> bool:
        """Whether a queue may refuse the other: the same tensors, another structure."""
        ours = (self.dtype, self.shape, self.count)
        same = ours == (other.dtype, other.shape, other.count)
        return same and self.structure != other.structure

    def flat(self, values: list[float]) -> list[np.ndarray]:
        """The arrays of a result made of these values, one for each replica."""
        parts = [np.full(self.shape, value).astype(self.dtype) for value in values]
        whole = np.stack(parts) if self.replicas > 1 else parts[0]
        return [whole, whole + np.ones_like(whole)][: self.count]


def packed(structure: str, flat: list[Any]) -> Any:
    """The tensors of a result in their structure."""
    if structure == "plain":
        return flat[0]
    return dict(zip("ab", flat, strict=True)) if structure == "dict" else tuple(flat)


@dataclass
class InfeedModel:
    """A dataset that counts from `first`, and what programs have taken of it.

    Attributes:
        first: Its first value.
        size: Its elements.
        fails: Whether it fails after them, and does not end.
        dtype: Of an element.
        shape: Of an element.
        gated_at: The element before which it waits until the gate is open.
        ready: Whether the initializer has run, and no deleter since.
        taken: Elements that programs have taken.
        perhaps: How many of these may be left, too: those of a program that has failed.
        replicas: Of the programs that have read; 0: none has.
        rings: Of the device when the initializer ran.
    """

    first: int
    size: int
    fails: bool
    dtype: str
    shape: tuple[int, ...]
    gated_at: int | None = None
    ready: bool = False
    taken: int = 0
    perhaps: int = 0
    replicas: int = 0
    rings: int = 1

    def start(self, rings: int) -> None:
        """The initializer has run."""
        self.ready, self.taken, self.perhaps = True, 0, 0
        self.replicas, self.rings = 0, rings

    def refuses(self, replicas: int) -> bool:
        """Whether a program of `replicas` replicas may not read."""
        return self.replicas not in (0, replicas) or self.rings % replicas != 0

    def take(self, count: int) -> list[float] | None:
        """The next values; None if there are fewer than `count`, and then all are gone."""
        start = self.taken
        if self.size - start < count:
            self.taken, self.perhaps = self.size, self.size - start
            return None
        self.taken += count
        return [float(self.first + start + i) for i in range(count)]


@dataclass
class OutfeedModel:
    """The results that no call has given yet.

    Attributes:
        last: Whether only the last one is kept.
        traced: What the programs that were built enqueue.
        kept: What the queue takes since its first result; None: there was none.
        results: The values of each result, one for each replica.
        instead: What `results` may be in place of that: of a queue that keeps the last
            result, when a program was cancelled during its last enqueue.
        ended: Whether a program that has enqueued has ended, and no reader has come to
            its end since: the next stream must end.
    """

    last: bool
    traced: list[Signature] = field(default_factory=list)
    kept: Signature | None = None
    results: list[list[float]] = field(default_factory=list)
    instead: list[list[list[float]]] = field(default_factory=list)
    ended: bool = False

    def takes(self, signature: Signature) -> bool:
        """Whether results of this kind are not refused."""
        return self.kept is None or self.kept.fits(signature)

    def structures(self) -> list[str]:
        """Those of the programs whose results are like the ones that are there."""
        return [each.structure for each in self.traced if self.takes(each)]

    def put(self, signature: Signature, values: list[float]) -> None:
        """A program has enqueued."""
        self.kept = self.kept or signature
        self.results = [values] if self.last else [*self.results, values]
        self.instead = []

    def put_or_not(self, signature: Signature, values: list[float], kept: bool) -> None:
        """A program was cancelled during its last enqueue, which is done or has failed.

        kept: Whether the queue knows what its results are, after the program: if it did
            not before, that shows which of both has happened.
        """
        if not kept:
            return
        before = [] if self.kept is None else [self.results, *self.instead]
        self.put(signature, values)
        self.instead = before

    def take_last(self) -> list[list[list[float]]]:
        """Takes the last result; returns what may have been there: one result or none."""
        self.ended = False
        found = [self.results, *self.instead]
        self.results, self.instead = [], []
        return found

    def forget(self) -> None:
        """The deleter has run."""
        self.kept, self.results, self.instead = None, [], []
        self.ended = False
