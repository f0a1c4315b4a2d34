"""What a collective of two replicas takes."""

import time
from typing import Any

import tensorflow as tf

from benchmarks.targets import Row, row
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives.ops import cross_replica_sum
from ipufeed.queues import IPUInfeedQueue

REPLICAS = 2
SMALL, LARGE = 1, 1 << 18  # float32: 4 bytes, 1 MiB


def rows(quick: bool) -> list[Row]:
    """Measures all-reduces of 4 bytes and 1 MiB in a loop, less the loop without them."""
    config = IPUConfig()
    config.auto_select_ipus = REPLICAS
    config.configure_ipu_system()
    repeats = 5 if quick else 25
    found = {}
    for elements, count in ((SMALL, 20_000), (LARGE, 200)):
        reducing, plain = Loop(elements, count, True), Loop(elements, count, False)
        found[elements] = [
            (reducing.seconds() - plain.seconds()) / count * 1e6 for _ in range(repeats)
        ]
    return [
        row(
            "all-reduce of 4 bytes by two replicas",
            "at most",
            3,
            "us",
            found[SMALL],
        ),
        row(
            "    all-reduce of 1 MiB by two replicas",
            "",
            0,
            "us",
            found[LARGE],
        ),
    ]


class Loop:
    """A program of two replicas that adds to a tensor, and may sum it over them."""

    def __init__(self, elements: int, count: int, reduces: bool) -> None:
        # An infeed, since that is what a program has replicas with.
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
        _ = infeed.initializer

        def body(x: Any) -> Any:
            x = x * 0.5 + 1.0
            return cross_replica_sum(x) if reduces else x

        def feed(x: Any, element: Any) -> Any:
            return loops.repeat(count, body, [x + element])

        @tf.function(jit_compile=True)
        def program() -> Any:
            return loops.repeat(1, feed, [tf.zeros([elements])], infeed)

        self._strategy = IPUStrategy()
        self._program = program
        self.seconds()  # compiles

    def seconds(self) -> float:
        """Measures the time of one run."""
        start = time.perf_counter()
        _ = [
            each.numpy() for each in tf.nest.flatten(self._strategy.run(self._program))
        ]
        return time.perf_counter() - start
