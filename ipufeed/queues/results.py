"""Results that have left the native queue, and that no caller has got yet.

A caller that asks for results one by one gets them from the native queue many at a time.
Its loop may end early: what it has not seen stays here for the next caller.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

# Tensors are cut into some rows at a time: one op for a million rows takes seconds
# before the first is there.
CHUNK = 1024


class Batch:
    """Results that were dequeued together.

    Args:
        identity: What they have in common with others of their kind; see Stored.
        structure: That of one result, of tf.TensorSpecs.
        columns: For each tensor of a result [n, *shape].
    """

    def __init__(self, identity: int, structure: Any, columns: list[Any]) -> None:
        self.identity = identity
        self.structure = structure
        self.columns = columns
        self._next = 0  # row of the columns
        self._rows: deque[list[Any]] = deque()  # cut, and before the next

    def __len__(self) -> int:
        return len(self._rows) + len(self.columns[0]) - self._next

    def row(self) -> Any:
        """The next result in its structure; there must be one."""
        import tensorflow as tf

        if not self._rows:
            end = self._next + CHUNK
            with tf.device("/device:CPU:0"):
                parts = [tf.unstack(c[self._next : end]) for c in self.columns]
            self._rows.extend(list(row) for row in zip(*parts, strict=True))
            self._next = min(end, len(self.columns[0]))
        return tf.nest.pack_sequence_as(self.structure, self._rows.popleft())

    def rest(self) -> list[Any]:
        """The columns of the results that row() has not given."""
        return [column[self._next - len(self._rows) :] for column in self.columns]


class TakenResults:
    """Batches in order, given out row by row or as a whole.

    Threads: any. Each row is given once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()

    def put(self, batch: Batch) -> None:
        """Adds what has been dequeued, behind what is there."""
        with self._lock:
            if len(batch):
                self._batches.append(batch)

    def row(self) -> tuple[Any] | None:
        """The next result, in a tuple, or None if there is none."""
        with self._lock:
            if not self._batches:
                return None
            row = self._batches[0].row()
            if not len(self._batches[0]):
                self._batches.popleft()
            return (row,)

    def all(self, batch: Batch) -> Batch:
        """What is there, and `batch` behind it.

        Results of another kind than the first are not joined to it: they stay here.
        """
        with self._lock:
            if not self._batches:
                return batch
            if len(batch):
                self._batches.append(batch)
            first = self._batches[0]
            parts = []
            while self._batches and self._batches[0].identity == first.identity:
                parts.append(self._batches.popleft().rest())
        return Batch(first.identity, first.structure, _joined(parts))

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._batches.clear()


def _joined(parts: list[list[Any]]) -> list[Any]:
    """Lists of columns, one behind the other."""
    import tensorflow as tf

    if len(parts) == 1:
        return parts[0]
    with tf.device("/device:CPU:0"):
        return [tf.concat(column, axis=0) for column in zip(*parts, strict=True)]
