"""The registered tables of host embeddings, by name.

Threads: any.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ipufeed.process_state import STATE


class Table:
    """A registered table.

    Attributes:
        name: The table's id.
        rows: [tokens, width].
        lock: Held for a lookup and for an update, so that each is atomic.
        changed: Whether rows were updated since they were copied; with the lock.
    """

    def __init__(self, name: str, rows: np.ndarray[Any, Any]) -> None:
        self.name = name
        self.rows = rows
        self.lock = threading.Lock()
        self.changed = False

    def check(self, ids: np.ndarray[Any, Any]) -> None:
        """Raises tf.errors.InvalidArgumentError if an id is not that of a row."""
        tokens = len(self.rows)
        if ids.size and not (ids.min() >= 0 and ids.max() < tokens):
            from tensorflow.python.framework import errors

            wrong = ids[(ids < 0) | (ids >= tokens)].flat[0]
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The host embedding '{self.name}' has the ids 0 to {tokens - 1}, got "
                f"{wrong}.",
            )


_lock = threading.Lock()
_tables: dict[str, Table] = {}


@STATE.part("host embeddings")
def _forget() -> None:
    with _lock:
        _tables.clear()


def add(name: str, rows: np.ndarray[Any, Any]) -> Table:
    """Registers a table.

    Raises:
        tf.errors.FailedPreconditionError: A table of that name is registered.
    """
    with _lock:
        if name not in _tables:
            return _tables.setdefault(name, Table(name, rows))
    from tensorflow.python.framework import errors

    raise errors.FailedPreconditionError(
        None,
        None,
        f"Cannot register host embedding with id='{name}' it already exists!",
    )


def remove(name: str) -> None:
    """Forgets a table; a name that is not registered is ignored."""
    with _lock:
        _tables.pop(name, None)


def find(name: str) -> Table:
    """Returns a registered table.

    Raises:
        tf.errors.FailedPreconditionError: It is not registered.
    """
    with _lock:
        table = _tables.get(name)
    if table is None:
        from tensorflow.python.framework import errors

        raise errors.FailedPreconditionError(
            None,
            None,
            f"Host embedding interface with id='{name}' not registered. Did you run the "
            "associated host_embedding op in the session?",
        )
    return table
