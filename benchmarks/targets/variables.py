"""What a run costs that may fail half-way: its variables must then be as they were.

A program with queue calls can end in the middle (its dataset ends, it is cancelled), so it
writes to its variables only behind its last call. What it computes before, it writes to
other memory, which is read into the cache before it is written: a third more traffic than
in place, which NumPy's loops have in the same way. A loop that goes on with what it has
written starts with a copy: the floor is one copy into memory that was written before, as
new memory comes page by page from the kernel, at a fifth of that speed.
"""

import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.targets import Row, comparison, row

VARIABLES, ELEMENTS = 10, 7_500_000  # of 4 bytes: 300 MB
MORE = "300 MB of variables: a run with a queue over one without"
MORE_OF_NUMPY = "    NumPy's product: into other memory over in place"
MORE_OF_A_LOOP = "    the same of a loop, against one copy of the variables"


def rows(quick: bool) -> list[Row]:
    """Measures all rows; TensorFlow runs in this process."""
    import ipufeed as ipu

    strategy = ipu.IPUStrategy()
    outfeed = ipu.IPUOutfeedQueue()
    calls = [
        program(strategy, queue, loop)
        for loop in (False, True)
        for queue in (None, outfeed)
    ]
    source = [np.ones(ELEMENTS, np.float32) for _ in range(VARIABLES)]
    target = [np.ones(ELEMENTS, np.float32) for _ in range(VARIABLES)]

    def copy() -> None:
        for to, of in zip(target, source, strict=True):
            np.copyto(to, of)

    def product(into: list[NDArray[np.float32]]) -> None:
        for to, of in zip(into, source, strict=True):
            np.multiply(of, np.float32(1), out=to)

    calls += [copy, lambda: product(source), lambda: product(target)]
    more, more_of_numpy, more_of_a_loop, copies = [], [], [], []
    for number in range((5 if quick else 15) + 2):
        once, once_queued, looped, looped_queued, bare, inside, outside = times(*calls)
        outfeed.dequeue()
        if number >= 2:  # the first ones compile, and find the memory
            more.append(once_queued - once)
            more_of_numpy.append(outside - inside)
            more_of_a_loop.append(looped_queued - looped)
            copies.append(bare)
    return [
        row(MORE, "at most", 5, "ms", more),
        row(MORE_OF_NUMPY, "", 0, "ms", more_of_numpy),
        comparison(
            MORE_OF_A_LOOP,
            "at most",
            1.5,
            "x",
            operator.truediv,
            more_of_a_loop,
            copies,
        ),
        row("    one copy", "", 0, "ms", copies),
    ]


def program(strategy: Any, outfeed: Any, loop: bool) -> Callable[[], Any]:
    """Returns a program that writes to all its variables, and may enqueue a number."""
    import tensorflow as tf

    with strategy.scope():
        variables = [tf.Variable(tf.ones([ELEMENTS])) for _ in range(VARIABLES)]

    def step() -> None:
        for each in variables:
            each.assign(each * 0.5 + 1.0)
        if outfeed is not None:
            outfeed.enqueue(variables[0][0])

    @tf.function(jit_compile=True)
    def update() -> None:
        if loop:
            for _ in tf.range(2):
                step()
        else:
            step()

    return lambda: strategy.run(update)


def times(*calls: Callable[[], Any]) -> list[float]:
    """Returns the time of each of them, in ms."""
    found = []
    for call in calls:
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) * 1e3)
    return found
