"""What a run costs that may fail half-way: the copy of the variables that it writes to.

A program with queue calls can end in the middle (its dataset ends, it is cancelled), and
its variables must then be as they were. The floor is one copy of them into memory that was
written before: new memory comes page by page from the kernel, at a fifth of that speed.
"""

import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.targets import Row, comparison, row

VARIABLES, ELEMENTS = 10, 7_500_000  # of 4 bytes: 300 MB
MORE = (
    "300 MB of variables: a run with a queue over one without, against one copy of them"
)


def rows(quick: bool) -> list[Row]:
    """All of them; TensorFlow runs in this process."""
    import ipufeed as ipu

    strategy = ipu.IPUStrategy()
    outfeed = ipu.IPUOutfeedQueue()
    plain, calling = program(strategy, None), program(strategy, outfeed)
    source = [np.ones(ELEMENTS, np.float32) for _ in range(VARIABLES)]
    target = [np.ones(ELEMENTS, np.float32) for _ in range(VARIABLES)]

    def copy() -> None:
        for to, of in zip(target, source, strict=True):
            np.copyto(to, of)

    more, copies = [], []
    for number in range((5 if quick else 15) + 2):
        without, with_queue, bare = times(plain, calling, copy)
        outfeed.dequeue()
        if number >= 2:  # the first ones compile, and find the memory
            more.append(with_queue - without)
            copies.append(bare)
    return [
        comparison(MORE, "at most", 1.5, "x", operator.truediv, more, copies),
        row("    more with a queue", "", 0, "ms", more),
        row("    one copy", "", 0, "ms", copies),
    ]


def program(strategy: Any, outfeed: Any) -> Callable[[], Any]:
    """One that writes to all its variables, and perhaps enqueues a number."""
    import tensorflow as tf

    with strategy.scope():
        variables = [tf.Variable(tf.ones([ELEMENTS])) for _ in range(VARIABLES)]

    @tf.function(jit_compile=True)
    def update() -> None:
        for each in variables:
            each.assign(each * 0.5 + 1.0)
        if outfeed is not None:
            outfeed.enqueue(variables[0][0])

    return lambda: strategy.run(update)


def times(*calls: Callable[[], Any]) -> list[float]:
    """What each of them takes, in ms."""
    found = []
    for call in calls:
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) * 1e3)
    return found
