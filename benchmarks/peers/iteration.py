"""The same tf.data pipeline in the ways that programs and tools iterate it."""

import contextlib
import functools
import importlib.util
import io
from collections.abc import Callable
from typing import Any

from benchmarks import pipelines
from benchmarks.iterate import Cost, bare, drained, loop, through, timed
from benchmarks.peers import Figure, Group

ABOUT = """Time and CPU time of the whole process for an element, after a warm-up of a
tenth. "ipufeed" is the feeder, the ring and the consumer, without copies; the bare loop
is GetNext in C++ on the same finalised dataset, the floor of all. `reduce` and the
tf.function stay inside TensorFlow and give nothing to the caller."""


def measure(quick: bool) -> Group:
    """Measures all ways, on tiny and on medium elements."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    repeats = 3 if quick else 9
    sizes = {
        "4 x 4 float32": (pipelines.tiny(), 2_000 if quick else 20_000),
        "32 x 28 x 28 float32": (pipelines.medium(), 500 if quick else 3_000),
    }
    ways, missing = all_ways()
    figures = []
    for size, (dataset, elements) in sizes.items():
        costs: dict[str, list[Cost]] = {way: [] for way in ways}
        for _ in range(repeats):
            for way, run in ways.items():
                costs[way].append(run(dataset, elements))
        for way, found in costs.items():
            peer = f"{way}, {size}"
            walls = tuple(cost.wall * 1e6 for cost in found)
            figures.append(Figure(peer, "wall", "us", walls))
            cpus = tuple(cost.cpu * 1e6 for cost in found)
            figures.append(Figure(peer, "CPU", "us", cpus))
    return Group("Iterating a tf.data pipeline", ABOUT, figures, missing)


Way = Callable[[Any, int], Cost]


TFDS = ("tensorflow_datasets", "pandas")


def all_ways() -> tuple[dict[str, Way], list[str]]:
    """Returns the ways by name, and how to install the missing ones."""
    ways: dict[str, Way] = {
        "ipufeed": through,
        "bare C++ loop": bare,
        "for x in dataset": loop,
        "as_numpy_iterator": numpy_loop,
        "tf.function loop": function_loop,
        "dataset.reduce": reduced,
    }
    missing = []
    # tfds.benchmark needs pandas for its table, and does not install it.
    if any(importlib.util.find_spec(each) is None for each in TFDS):
        missing.append("tfds.benchmark: pip install tensorflow-datasets pandas")
    else:
        ways["tfds.benchmark"] = tfds_benchmark
    return ways, missing


def numpy_loop(dataset: Any, elements: int) -> Cost:
    """Measures a Python loop with NumPy arrays instead of tensors."""
    return drained(dataset.as_numpy_iterator(), elements)


@functools.cache
def summing() -> Any:
    """Returns AutoGraph's loop over a dataset, which sums a number of each element."""
    import tensorflow as tf

    @tf.function
    def run(part: Any) -> Any:
        total = tf.constant(0.0)
        for element in part:
            first = tf.nest.flatten(element)[0]
            total += tf.cast(tf.reshape(first, [-1])[0], tf.float32)
        return total

    return run


def function_loop(dataset: Any, elements: int) -> Cost:
    """Measures the loop of a tf.function."""
    run = summing()
    run(dataset.take(max(1, elements // 10)))
    part = dataset.take(elements)
    return timed(lambda: run(part).numpy(), elements)


def reduced(dataset: Any, elements: int) -> Cost:
    """Measures `reduce`: TensorFlow's C++ loop, with a function call for each element."""
    import tensorflow as tf

    def run(count: int) -> Any:
        part = dataset.take(count)
        return part.reduce(tf.constant(0), lambda n, _: n + 1).numpy()

    run(max(1, elements // 10))
    return timed(lambda: run(elements), elements)


def tfds_benchmark(dataset: Any, elements: int) -> Cost:
    """Measures by TensorFlow Datasets' own benchmark, without its table."""
    import tensorflow_datasets as tfds

    part = dataset.take(elements)
    with contextlib.redirect_stdout(io.StringIO()):
        return timed(lambda: tfds.benchmark(part, batch_size=1), elements)
