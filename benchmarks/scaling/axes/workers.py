"""tf.data service with 1 to 4 workers."""

import contextlib
import os
from typing import Any

from benchmarks import confidence
from benchmarks.iterate import through
from benchmarks.scaling import Axis
from benchmarks.scaling.turns import in_turns

ABOUT = """The same pipeline through tf.data service with 1 to 4 workers, sharding off. The
workers' pipeline waits 2 ms for each element, or computes for about 1 ms. Time for each
element that arrives; CPU time is that of the receiving process. The machine has {cpus}
CPUs."""
SLEEP, BURN = "2 ms asleep", "1 ms of arithmetic"


def measure(quick: bool) -> Axis:
    """Measures all clusters, which run at the same time: unread workers do no work."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)
    from ipufeed.benchmark.scaleout.cluster import Cluster

    numbers = (1, 2) if quick else (1, 2, 3, 4)
    count, repeats = (100, 2) if quick else (1_000, 7)
    cpus = len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        clusters = {x: stack.enter_context(Cluster(x)) for x in numbers}
        ways = {
            what: {x: run(dataset, clusters[x].target, x, count) for x in numbers}
            for what, dataset in (
                (SLEEP, confidence.sleep(1.0)),
                (BURN, confidence.burn(1.0)),
            )
        }
        curves = in_turns(ways, repeats)
    return Axis(
        "Workers of tf.data service",
        ABOUT.format(cpus=cpus),
        "workers",
        curves,
        {
            (SLEEP, "falls"): "the workers wait at the same time",
            (BURN, "falls"): "the workers compute at the same time",
            (BURN, "flat"): f"the workers share {cpus} CPUs with the receiving process",
        },
    )


def run(dataset: Any, target: str, workers: int, count: int) -> Any:
    """Receives `count` elements; each call is a job of its own."""
    from ipufeed.benchmark.scaleout.service import distribute
    from ipufeed.benchmark.scaleout.settings import ServiceSettings

    settings = ServiceSettings(service=f"local:{workers}")
    remote = distribute(dataset, target, settings, counted=False)
    return lambda: through(remote, count)
