"""Layers of Keras 3 in a graph of version 1, which Keras 3 itself no longer has.

Its names go on from graph to graph, and nothing in a graph runs what layers assign to their
state: moving averages, and the seeds of dropout. This module imports no Keras.
"""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from ipufeed.tf_types import Operation

_NAMES = "object_name_uids"
_ASSIGNS = "AssignVariableOp"
_BY = PurePath("keras", "src", "backend", "tensorflow", "core.py").parts


@contextlib.contextmanager
def own_names() -> Iterator[None]:
    """Numbers layers from the first, as those of a graph of version 1 are.

    A model function that is called for each graph thus has the same names in each, and
    finds its variables in a checkpoint.
    """
    state = _state()
    before = state and state.get_global_attribute(_NAMES)
    if state is not None:
        state.set_global_attribute(_NAMES, collections.defaultdict(int))
    try:
        yield
    finally:
        state = _state()  # the model function may have imported it
        if state is not None:
            state.set_global_attribute(_NAMES, before or collections.defaultdict(int))


def state_updates(operations: Iterable[Operation]) -> list[Operation]:
    """Returns those of a graph's operations that assign to a variable of Keras 3."""
    if _state() is None:
        return []
    return [each for each in operations if each.type == _ASSIGNS and _of_keras(each)]


def _state() -> Any:
    return sys.modules.get("keras.src.backend.common.global_state")


def _of_keras(operation: Operation) -> bool:
    return any(
        PurePath(frame.filename).parts[-len(_BY) :] == _BY
        for frame in operation.traceback
    )
