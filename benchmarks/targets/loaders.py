"""What the Python loop for other frameworks' loaders costs, against a bare `for`."""

import collections
import contextlib
import itertools
import time
from typing import Any

import numpy as np

from benchmarks.targets import Row, row
from ipufeed.benchmark.loaders.consumer import Consumer, Limits


def rows(quick: bool) -> list[Row]:
    """Measures an element of one array, and of three, given at once."""
    repeats, elements = (3, 20_000) if quick else (11, 200_000)
    array = np.zeros([32], np.float32)
    several = {"image": array, "label": array, "weight": array}
    found = []
    for name, element in (("one array", array), ("three arrays", several)):
        for copy in (False, True):
            added = [above_bare(element, elements, copy) for _ in range(repeats)]
            what = f"Python loop for loaders, {name}{', copied' if copy else ''}"
            is_target = element is array and not copy
            found.append(
                row(
                    what if is_target else f"    {what}",
                    "at most" if is_target else "",
                    5 if is_target else 0,
                    "us",
                    added,
                )
            )
    return found


def above_bare(element: Any, elements: int, copy: bool) -> float:
    """Microseconds per element above a loop that drops what it gets."""
    begin = time.perf_counter()
    collections.deque(itertools.repeat(element, elements), maxlen=0)
    bare = time.perf_counter() - begin
    limits = Limits(
        epochs=0,
        elements_per_epoch=0,
        epoch_ns=10**9,
        seconds_ns=0,
        passes=1,
        epoch_per_pass=False,
        copy=copy,
    )
    consumer = Consumer(
        lambda: contextlib.nullcontext(itertools.repeat(element, elements)), limits
    )
    begin = time.perf_counter()
    consumer.run()
    return (time.perf_counter() - begin - bare) / elements * 1e6
