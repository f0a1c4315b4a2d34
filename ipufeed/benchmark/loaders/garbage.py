"""Keeps Python's collections of garbage out of what is measured."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_older_objects(is_python: bool = True) -> Iterator[None]:
    """Takes what exists before a run out of Python's collections of garbage in it.

    A full one that walks all of TensorFlow and of the frameworks stops each thread of
    Python for 0.1 to 1 s. Training has one before its first step, if any.

    Args:
        is_python: Whether the run is of Python code; else nothing happens.
    """
    if not is_python or not gc.isenabled() or gc.get_freeze_count():
        yield  # in the last two cases the program has its own way
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
