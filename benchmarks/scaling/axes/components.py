"""Elements of 1 to 64 tensors of 64 bytes."""

import functools
from typing import Any

from benchmarks import feeds
from benchmarks.iterate import bare, through, timed
from benchmarks.scaling import Axis
from benchmarks.scaling.turns import in_turns

ABOUT = """One element of 1 to 64 tensors of 64 bytes, repeated. "measuring op" is the
feeder, the ring and the consumer; the bare loop is GetNext in C++ on the same dataset; the
infeed is that of a compiled loop, which copies the tensors into the program. Time for each
element; CPU time is that of the whole process."""
EACH = "each tensor of an element is taken, passed on and released separately"


def measure(quick: bool) -> Axis:
    """Measures all ways at all numbers of components."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    numbers = (1, 8, 64) if quick else (1, 2, 4, 8, 16, 32, 64)
    count, repeats = (2_000, 3) if quick else (20_000, 9)
    datasets = {number: dataset_of(number) for number in numbers}
    ways = {
        "measuring op": {
            x: functools.partial(through, dataset, count)
            for x, dataset in datasets.items()
        },
        "bare C++ loop": {
            x: functools.partial(bare, dataset, count)
            for x, dataset in datasets.items()
        },
        "infeed of a program": {
            x: infeed_run(dataset, count) for x, dataset in datasets.items()
        },
    }
    return Axis(
        "Components of an element",
        ABOUT,
        "components",
        in_turns(ways, repeats),
        {(what, "grows"): EACH for what in ways},
    )


def dataset_of(components: int) -> Any:
    """Returns tuples of tensors, without AUTOTUNE, which would cost more than all else."""
    import tensorflow as tf

    return feeds.source(tuple(tf.zeros([4, 4]) for _ in range(components)))


def infeed_run(dataset: Any, count: int, depth: int = 32) -> Any:
    """Returns a compiled loop that takes `count` elements."""
    program = feeds.program(
        lambda *_: None, [], feeds.infeed(dataset, prefetch_depth=depth)
    )
    return lambda: timed(lambda: program(count), count)
