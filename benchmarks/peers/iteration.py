"""The same tf.data pipeline in the ways that programs and tools iterate it."""

import contextlib
import functools
import importlib.util
import io
import itertools
import time
from collections.abc import Callable
from typing import Any

from benchmarks import pipelines
from benchmarks.iterate import Cost, bare, loop, through
from benchmarks.peers import Figure, Group

ABOUT = """Time and CPU time of the whole process for an element, after a warm-up of a
tenth. "ipufeed" is the feeder, the ring and the consumer, without copies; the bare loop
is GetNext in C++ on the same finalised dataset, the floor of all. `reduce` and the
tf.function stay inside TensorFlow and give nothing to the caller."""


def measure(quick: bool) -> Group:
    """All ways, on tiny and on medium elements."""
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
    """By name, and what is not installed."""
    ways: dict[str, Way] = {
        "ipufeed": through,
        "bare C++ loop": bare,
        "for x in dataset": loop,
        "as_numpy_iterator": numpy_loop,
        "tf.function loop": function_loop,
        "dataset.reduce": reduced,
    }
    missing = []
    # Its table is one of pandas, which it does not ask for.
    if any(importlib.util.find_spec(each) is None for each in TFDS):
        missing.append("tfds.benchmark: pip install tensorflow-datasets pandas")
    else:
        ways["tfds.benchmark"] = tfds_benchmark
    return ways, missing


def timed(run: Callable[[], Any], elements: int) -> Cost:
    """Of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Cost(
        wall=(time.perf_counter() - wall) / elements,
        cpu=(time.process_time() - cpu) / elements,
    )


def numpy_loop(dataset: Any, elements: int) -> Cost:
    """Python, with NumPy arrays instead of tensors."""
    iterator = dataset.as_numpy_iterator()
    for _ in itertools.islice(iterator, elements // 10):
        pass

    def run() -> None:
        for _ in itertools.islice(iterator, elements):
            pass

    return timed(run, elements)


@functools.cache
def summing() -> Any:
    """AutoGraph's loop over a dataset, which takes one number of each element."""
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
    """The loop of a tf.function."""
    run = summing()
    run(dataset.take(max(1, elements // 10)))
    part = dataset.take(elements)
    return timed(lambda: run(part).numpy(), elements)


def reduced(dataset: Any, elements: int) -> Cost:
    """TensorFlow's own loop in C++, with a function call for each element."""
    import tensorflow as tf

    def run(count: int) -> Any:
        part = dataset.take(count)
        return part.reduce(tf.constant(0), lambda n, _: n + 1).numpy()

    run(max(1, elements // 10))
    return timed(lambda: run(elements), elements)


def tfds_benchmark(dataset: Any, elements: int) -> Cost:
    """TensorFlow Datasets' own benchmark, without its table."""
    import tensorflow_datasets as tfds

    part = dataset.take(elements)
    with contextlib.redirect_stdout(io.StringIO()):
        return timed(lambda: tfds.benchmark(part, batch_size=1), elements)
