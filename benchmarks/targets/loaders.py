"""What other frameworks' loaders cost: in the Python loop, and on the way to a device.

The loop is measured against a bare `for`, the way to a device against from_generator.

With the same element again, and with arrays that the loader makes for each element, as
NumPy's and (where they are installed) Torch's and JAX's: neither these nor the loop's own
code and data are in the CPU's caches then. To make an array of JAX takes longer
than the loop, with a spread that is larger than the loop's cost: those are made before the
pass, which makes arrays of NumPy in between. A virtual CPU changes its speed within a
second: a bare and a counted pass take some hundredths of one, the order changes from one
pair to the next, and there are many.
"""

import contextlib
import gc
import importlib.util
import itertools
import operator
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.targets import Row, comparison, row
from ipufeed.benchmark.loaders.consumer import Consumer, Limits

LIMIT_US = 5
LIMIT_OF_GENERATOR = 0.15
LIMIT_OF_COPY = 1.5
LARGE = 1 << 20  # bytes of an element whose copy takes longer than its calls
FEW = 500  # elements of a pass that makes arrays
Elements = Callable[[int], Iterator[Any]]


def rows(quick: bool) -> list[Row]:
    """Measures elements of one array, of three, and of two new ones."""
    repeats, elements = (3, 20_000) if quick else (11, 200_000)
    array = np.zeros([32], np.float32)
    several = {"image": array, "label": array, "weight": array}
    found = []
    for name, element in (("one array", array), ("three arrays", several)):
        again = partial(itertools.repeat, element)
        for copy in (False, True):
            added = [above_bare(again, elements, copy) for _ in range(repeats)]
            copied = ", copied" if copy else ""
            found.append(
                _row(f"{name}{copied}", added, name == "one array" and not copy)
            )
    for name, new in _new_arrays().items():
        added = [
            above_bare(new, FEW, False, pair % 2 == 1) for pair in range(16 * repeats)
        ]
        found.append(_row(f"two new arrays of {name}", added, is_target=True))
    for numbers, count in ((1024, 3000), (1 << 20, 200)):
        found += _way_to_a_device(numbers, count if quick else 2 * count, repeats)
    return found


def _way_to_a_device(numbers: int, count: int, repeats: int) -> list[Row]:
    """Measures elements of one float32 array as a dataset.

    Small ones are judged against from_generator. Large ones are judged against one copy of
    their bytes, which is their floor: from_generator took 3 times as long as a copy on one
    machine, 17 times on another.
    """
    import tensorflow as tf

    from ipufeed.sources.loaders.python_elements import python_elements

    array = np.ones([numbers], np.float32)
    spec = (tf.TensorSpec(array.shape, tf.float32),)

    def elements() -> Iterator[Any]:
        return itertools.repeat((array,), count)

    # skip() reads all but the last one natively.
    ours = python_elements(elements, spec).skip(count - 1)
    theirs = tf.data.Dataset.from_generator(elements, output_signature=spec)
    theirs = theirs.skip(count - 1)
    is_large = array.nbytes >= LARGE
    own, generated, copied = [], [], []
    for _ in range(repeats):
        own.append(_bare_s(ours))
        generated.append(_bare_s(theirs))
        if is_large:
            copied.append(_copies_s(array, count))
    what = f"an element of {array.nbytes >> 10:,} KiB from Python to tf.data, against "
    less = operator.truediv, own, generated
    if is_large:
        judged = [
            comparison(
                f"{what}a copy",
                *("at most", LIMIT_OF_COPY, "x"),
                *(operator.truediv, own, copied),
            ),
            comparison("    against from_generator", "", 0, "x", *less),
        ]
    else:
        limit = "at most", LIMIT_OF_GENERATOR, "x"
        judged = [comparison(f"{what}from_generator", *limit, *less)]
    each = [seconds / count * 1e6 for seconds in own]
    return [*judged, row("    the same, its time", "", 0, "us", each)]


def _copies_s(array: "np.ndarray[Any, Any]", count: int) -> float:
    """Returns the seconds of as many copies, alternately into four arrays that are kept."""
    kept = [np.ones_like(array) for _ in range(4)]
    begin = time.perf_counter()
    for number in range(count):
        np.copyto(kept[number % len(kept)], array)
    return time.perf_counter() - begin


def _row(what: str, added: list[float], is_target: bool) -> Row:
    text = f"{'' if is_target else '    '}Python loop for loaders, {what}"
    if is_target:
        return row(text, "at most", LIMIT_US, "us", added)
    return row(text, "", 0, "us", added)


def _new_arrays() -> dict[str, Elements]:
    """Returns generators of `{"image": 2 KiB, "label": 32 numbers}` by their framework."""

    def of_numpy(count: int) -> Iterator[Any]:
        for number in range(count):
            image = np.full([32, 16], number, np.float32)
            yield {"image": image, "label": np.arange(32)}

    found: dict[str, Elements] = {"NumPy": of_numpy}
    if importlib.util.find_spec("torch"):
        import torch

        def of_torch(count: int) -> Iterator[Any]:
            return (
                {name: torch.from_numpy(array) for name, array in element.items()}
                for element in of_numpy(count)
            )

        found["Torch"] = of_torch
    if importlib.util.find_spec("jax"):
        import jax

        def of_jax(count: int) -> Iterator[Any]:
            made = [jax.device_put(element) for element in of_numpy(count)]
            return (element for element, _ in zip(made, of_numpy(count), strict=True))

        found["JAX"] = of_jax
    return found


def above_bare(
    elements: Elements, count: int, copy: bool, counted_first: bool = False
) -> float:
    """Microseconds per element above a bare `for`, which holds one until the next.

    Without collections of garbage, as `timeit` measures: all objects of a framework would
    be looked through, in the one pass or in the other.
    """
    gc.disable()
    try:
        if counted_first:
            counted_s = _counted_s(elements, count, copy)
            bare_s = _bare_s(elements(count))
        else:
            bare_s = _bare_s(elements(count))
            counted_s = _counted_s(elements, count, copy)
    finally:
        gc.enable()
    return (counted_s - bare_s) / count * 1e6


def _bare_s(made: Iterable[Any]) -> float:
    begin = time.perf_counter()
    for _ in made:
        pass
    return time.perf_counter() - begin


def _counted_s(elements: Elements, count: int, copy: bool) -> float:
    made = elements(count)
    consumer = Consumer(lambda: contextlib.nullcontext(made), Limits(copy=copy))
    begin = time.perf_counter()
    consumer.run()
    return time.perf_counter() - begin
