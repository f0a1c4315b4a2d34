"""Lets a generator's dataset end before its first element has been requested.

TensorFlow creates the Python iterator when the first element is requested, and forgets it
when the dataset's iterator ends. A queue that is closed between the two makes it forget an
iterator that does not exist: it logs a KeyError with its traceback, and keeps the
generator's arguments.
"""

from __future__ import annotations

import functools
from typing import Any

from ipufeed.tf_patches.changes import replace


@functools.cache
def install() -> None:
    """Replaces the end of a generator's iterator, once."""
    from tensorflow.python.data.ops.dataset_ops import DatasetV2

    state = DatasetV2._GeneratorState
    stock = state.iterator_completed

    @functools.wraps(stock)
    def iterator_completed(self: Any, iterator_id: Any) -> None:
        key = self._normalize_id(iterator_id)
        if self._args.pop(key, None) is None:
            stock(self, iterator_id)

    replace(state, "iterator_completed", iterator_completed)
