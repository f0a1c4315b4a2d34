"""Programs of 1 to 16 replicas."""

import os
from collections.abc import Callable
from typing import Any

from benchmarks import feeds
from benchmarks.iterate import Cost, timed
from benchmarks.scaling import Axis, turns

ABOUT = """A compiled loop of 1 to 16 replicas, each a thread on an IPU of its own. "an
element each": each iteration takes an element of 4 bytes for each replica from one infeed.
The all-reduces are a `cross_replica_sum` in each iteration. Time for each iteration of the
loop, the start of the program included; the machine has {cpus} CPUs."""
FEED, SMALL, LARGE = "an element each", "all-reduce of 64 bytes", "all-reduce of 1 MiB"


def measure(quick: bool) -> Axis:
    """Configures, compiles and measures each number of replicas in each repeat."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    numbers = (1, 2, 8) if quick else (1, 2, 4, 8, 16)
    counts = (500, 200, 20) if quick else (5_000, 2_000, 200)
    repeats = 2 if quick else 9
    found: dict[str, dict[float, list[Cost]]] = {
        what: {number: [] for number in numbers} for what in (FEED, SMALL, LARGE)
    }
    for repeat in range(repeats):
        for number in numbers if repeat % 2 == 0 else reversed(numbers):
            for what, cost in costs(number, counts).items():
                found[what][number].append(cost)
    cpus = len(os.sched_getaffinity(0))
    more = (
        f"the replicas' threads share {cpus} CPUs, and each iteration has more of them"
    )
    curves = [c for what, points in found.items() for c in turns.curves(what, points)]
    return Axis(
        "Replicas of a program",
        ABOUT.format(cpus=cpus),
        "replicas",
        curves,
        {(what, "grows"): more for what in found},
    )


def costs(replicas: int, counts: tuple[int, int, int]) -> dict[str, Cost]:
    """Measures the three programs with this number of replicas."""
    import tensorflow as tf

    from ipufeed.device.config.config import IPUConfig
    from ipufeed.parallel.collectives.ops import cross_replica_sum

    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    queue = feeds.infeed(feeds.source(tf.zeros([])))
    programs: dict[str, Callable[[int], Any]] = {
        FEED: feeds.program(lambda element: None, [], queue),
        SMALL: feeds.program(cross_replica_sum, [tf.zeros([16])]),
        LARGE: feeds.program(cross_replica_sum, [tf.zeros([1 << 18])]),
    }
    found = {}
    for count, (what, run) in zip(counts, programs.items(), strict=True):
        run(max(1, count // 10))
        found[what] = timed(lambda run=run, count=count: run(count), count)
    _ = queue.deleter
    return found
