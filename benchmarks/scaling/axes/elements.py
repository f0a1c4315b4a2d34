"""Runs of 10^3 to 10^7 elements."""

import functools

from benchmarks import feeds
from benchmarks.iterate import bare, through
from benchmarks.scaling import Axis, size
from benchmarks.scaling.axes.components import infeed_run
from benchmarks.scaling.turns import in_turns
from benchmarks.soak import rss_bytes

ABOUT = """A thousand to ten million elements of 64 bytes in one run, of the measuring op,
of the bare loop, and of a compiled loop that takes them from an infeed. Time for each
element; the start of the program is part of the last one's."""
INFEED = "infeed of a program"


def measure(quick: bool) -> Axis:
    """Measures all ways at all numbers, then the memory after the longest loop."""
    import ipufeed  # noqa: F401, I001 (before TensorFlow's first op)
    import tensorflow as tf

    numbers = [10**power for power in range(3, 6 if quick else 8)]
    source = feeds.source(tf.zeros([4, 4]))
    ways = {
        "measuring op": {x: functools.partial(through, source, x) for x in numbers},
        "bare C++ loop": {x: functools.partial(bare, source, x) for x in numbers},
        INFEED: {x: infeed_run(source, x) for x in numbers},
    }
    curves = in_turns(ways, 2 if quick else 5)
    before = rss_bytes()
    ways[INFEED][numbers[-1]]()
    grown = max(0, rss_bytes() - before)
    return Axis(
        "Elements of a run",
        ABOUT,
        "elements",
        curves,
        {(INFEED, "falls"): "the start of the program is spread over more elements"},
        [
            f"{INFEED}: the process grew by {size(grown)} of resident memory while a "
            f"loop took {numbers[-1]:,} elements, after loops of as many."
        ],
    )
