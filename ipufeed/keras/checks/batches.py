"""Compares the batches of a generator, a PyDataset or a Sequence with the first one.

A compiled program has fixed shapes. tf.data reports an error of the generator as text with
a traceback: the check keeps its error, which `fit` raises in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf

from ipufeed.tf_types import Nest


class BatchCheck:
    """Checks the batches of one call.

    Args:
        name: What yields them, for the error: "generator".
        first: The first batch, if it is known before the others are read.

    Attributes:
        count: The number of batches that were read.
        error: The error of a batch that differs, if there was one.
        most: The batches that an iterator reads at most; None: all. A generator's others
            are left to the next call: queues would read ahead.

    Threads: one at a time.
    """

    def __init__(self, name: str, first: Nest = None) -> None:
        self.count = 0
        self.error: ValueError | None = None
        self.most: int | None = None
        self._name = name
        self._first = None if first is None else _leaves(first)

    def watched(
        self, make: Callable[[], Iterable[Nest]]
    ) -> Callable[[], Iterator[Nest]]:
        """Returns a function that makes iterators whose batches are checked."""

        def checked() -> Iterator[Nest]:
            for number, batch in enumerate(itertools.islice(make(), self.most)):
                try:
                    self.check(batch, number)
                except ValueError as error:
                    self.error = error
                    raise
                self.count = number + 1
                yield batch

        return checked

    def check(self, batch: Nest, number: int) -> None:
        """Raises ValueError if a batch has other components than the first one.

        Args:
            batch: Nested arrays.
            number: The number of the batch, from 0.
        """
        found = _leaves(batch)
        if self._first is None:
            self._first = found
            return
        why = _difference(self._first, found)
        if why:
            way = f"Give all batches of the {self._name} the same."
            if self.is_smaller(batch):
                way = (
                    "So a smaller last batch, which stock Keras takes, must be left out "
                    f"or padded by the {self._name}, or by a tf.data.Dataset with "
                    "`batch(n, drop_remainder=True)`."
                )
            raise ValueError(
                f"Batch {number} (counted from 0) of the {self._name} differs from the "
                f"first one: {why}. A compiled program has fixed shapes and dtypes. {way}"
            )

    def is_smaller(self, batch: Nest) -> bool:
        """Whether a batch differs from the first one in having fewer rows only."""
        found, first = _leaves(batch), self._first or []
        return _kinds(found) == _kinds(first) and all(
            each is None or other is None or each.shape[:1] < other.shape[:1]
            for each, other in zip(found, first, strict=True)
        )


def _kinds(leaves: list[np.ndarray | None]) -> list[object]:
    return [None if each is None else each.shape[1:] for each in leaves]


def _leaves(batch: Nest) -> list[np.ndarray | None]:
    """Returns arrays without data, with the shapes and dtypes of a batch's components."""
    return [_without_data(each) for each in tf.nest.flatten(batch)]


def _without_data(leaf: Nest) -> np.ndarray | None:
    if leaf is None:
        return None
    if tf.is_tensor(leaf):
        if isinstance(leaf, tf.Tensor):
            return np.broadcast_to(np.empty([], leaf.dtype.as_numpy_dtype), leaf.shape)
        return None  # sparse or ragged: the infeed refuses them
    array = np.asarray(leaf)
    return np.broadcast_to(np.empty([], array.dtype), array.shape)


def _difference(
    first: list[np.ndarray | None], found: list[np.ndarray | None]
) -> str | None:
    """Returns how a batch's components differ from the first one's, or None."""
    if len(first) != len(found):
        return f"it has {len(found)} components, and the first one {len(first)}"
    for number, (one, other) in enumerate(zip(first, found, strict=True)):
        if one is None or other is None:
            if one is not other:
                return f"component {number} is None in one of them"
            continue
        if one.shape != other.shape:
            return (
                f"component {number} has the shape {other.shape}, and not {one.shape}"
            )
        # Keras converts float64 to float32, and integers to floats.
        if not np.can_cast(other.dtype, one.dtype, "same_kind"):
            return (
                f"component {number} has the dtype {other.dtype}, which cannot be "
                f"converted to {one.dtype} without a loss"
            )
    return None
