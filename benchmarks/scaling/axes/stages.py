"""Pipelines of 2 to 8 stages, each on an IPU of its own, and a loop of one stage."""

import os
from typing import Any

import ipufeed  # noqa: F401 (before TensorFlow's first op)
from benchmarks import feeds
from benchmarks.iterate import Cost, timed
from benchmarks.pipeline_stages import Stages
from benchmarks.scaling import Axis, turns

WAIT_S = 0.002
ABOUT = """A pipeline of 2 to 8 stages, grouped schedule, without training. "stages of 2 ms"
wait that long for each mini-batch, as a device that computes elsewhere; "stages that add"
add 1 to a number. A grouped schedule of N mini-batches and S stages has N + S - 1 slots:
the time is that of a slot, 2 ms being ideal for the stages that wait. A pipeline has at
least two stages: 1 is a loop on one IPU with the work of a stage. The machine has {cpus}
CPUs."""
WAITING, ADDING = "stages of 2 ms", "stages that add"


def measure(quick: bool) -> Axis:
    """Configures, compiles and measures each number of stages in each repeat."""
    numbers = (1, 2, 4) if quick else (1, 2, 4, 8)  # devices have a power of two
    repeats = 2 if quick else 9
    found: dict[str, dict[float, list[Cost]]] = {
        what: {number: [] for number in numbers} for what in (WAITING, ADDING)
    }
    for repeat in range(repeats):
        for number in numbers if repeat % 2 == 0 else reversed(numbers):
            found[WAITING][number].append(cost(number, 32, 1, WAIT_S))
            found[ADDING][number].append(cost(number, 64, 16))
    cpus = len(os.sched_getaffinity(0))
    more = f"each slot has a thread's work for each stage, on {cpus} CPUs"
    curves = [c for what, points in found.items() for c in turns.curves(what, points)]
    return Axis(
        "Stages of a pipeline",
        ABOUT.format(cpus=cpus),
        "stages",
        curves,
        {(what, "grows"): more for what in found},
    )


def cost(stages: int, count: int, repeat: int, seconds: float = 0.0) -> Cost:
    """Returns the cost of a slot of the schedule: the mean over one program."""
    if stages == 1:
        alone = loop_of_one(seconds)
        return timed(lambda: alone(count * repeat), count * repeat)
    several = Stages(seconds=seconds, count=count, repeat=repeat, stages=stages)
    return timed(several.run, several.slots)


def loop_of_one(seconds: float) -> Any:
    """Returns a function of n: a stage's work n times, in a loop between two queues."""
    import tensorflow as tf

    from ipufeed.device.config.config import IPUConfig
    from ipufeed.device.program import clock
    from ipufeed.queues import IPUOutfeedQueue

    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    outfeed = IPUOutfeedQueue()

    def body(x: Any) -> Any:
        return outfeed.enqueue(clock.wait(x, seconds) if seconds else x + 1.0)

    program = feeds.program(body, [], feeds.infeed(feeds.source(tf.zeros([]))))

    def run(n: int) -> None:
        program(n)
        outfeed.dequeue()

    run(1)
    return run
