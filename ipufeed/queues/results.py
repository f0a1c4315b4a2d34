"""Results that have left the native queue, and that nobody has got yet.

Whoever asks for results one by one gets them from the native queue many at a time. A loop
over them may end early: what it has not seen stays here for the next who asks.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

# Tensors are cut into rows so many at a time: one op for a million rows takes seconds
# before the first is there.
CHUNK = 1024


class TakenResults:
    """Columns, [n, *shape] for each tensor of a result, given out row by row.

    Threads: any. Each row is given once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: deque[list[Any]] = deque()
        self._columns: list[Any] = []
        self._next = 0  # row of _columns

    def put(self, columns: list[Any]) -> None:
        """Adds what has been dequeued, behind what is there."""
        with self._lock:
            if len(columns[0]) == 0:
                return
            if self._columns:
                columns = joined(self._rest(), columns)
            self._columns, self._next = columns, 0

    def row(self) -> list[Any] | None:
        """The next row, or None if there is none."""
        import tensorflow as tf

        with self._lock:
            if not self._rows and self._columns:
                end = self._next + CHUNK
                with tf.device("/device:CPU:0"):
                    parts = [tf.unstack(c[self._next : end]) for c in self._columns]
                self._rows.extend(list(row) for row in zip(*parts, strict=True))
                self._next = end
                if end >= len(self._columns[0]):
                    self._columns, self._next = [], 0
            return self._rows.popleft() if self._rows else None

    def all(self, columns: list[Any]) -> list[Any]:
        """What is there, and `columns` behind it; nothing is there afterwards."""
        import tensorflow as tf

        with self._lock:
            rest = self._rest() if self._columns else []
            if self._rows:
                parts = [tf.stack(list(p)) for p in zip(*self._rows, strict=True)]
                rest = joined(parts, rest) if rest else parts
            self._rows.clear()
            self._columns, self._next = [], 0
        return joined(rest, columns) if rest else columns

    def _rest(self) -> list[Any]:
        return [column[self._next :] for column in self._columns]


def joined(first: list[Any], second: list[Any]) -> list[Any]:
    """Two lists of columns, one behind the other."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return [tf.concat(pair, axis=0) for pair in zip(first, second, strict=True)]
