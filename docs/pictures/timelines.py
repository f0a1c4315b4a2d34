"""The pictures of docs/pipelines.md: two stages that train, in each of the schedules.

A stage takes 20 ms for a mini-batch in either direction. It waits for that long, as a host
does for a device that computes, so that the pictures are the same on any machine.
"""

import dataclasses
import json
from pathlib import Path

from ipufeed.parallel.timelines.slices import Execution, Slice
from ipufeed.parallel.timelines.timeline import Timeline

RESULT = Path(__file__).resolve().parent / "timelines.json"
PICTURES = {
    "pipelines-grouped": "Grouped",
    "pipelines-interleaved": "Interleaved",
    "pipelines-sequential": "Sequential",
}
WIDTH = 440  # pixels: on the narrowest screens hardly scaled
STAGES, MINI_BATCHES, STAGE_S = 2, 4, 0.02


def load() -> dict[str, Timeline]:
    """What has been measured, by schedule."""
    return {
        kind: Timeline(
            [Slice(**each) for each in found["slices"]],
            [Slice(**each) for each in found["updates"]],
            [Execution(**each) for each in found["executions"]],
        )
        for kind, found in json.loads(RESULT.read_text()).items()
    }


def draw(name: str) -> str:
    """A picture as the text of an SVG file; all have one scale."""
    timelines = load()
    longest = max(each.end_ns - each.start_ns for each in timelines.values())
    return timelines[PICTURES[name]].to_svg(WIDTH, longest / 1e6)


def measure() -> None:
    """Runs the three pipelines, and stores when each stage was at work."""
    from ipufeed.parallel.pipeline.schedules import PipelineSchedule

    found = {
        kind.name: dataclasses.asdict(since_start(run(kind)))
        for kind in PipelineSchedule
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


def since_start(executed: Timeline) -> Timeline:
    """The same, with times from the first stage's beginning on."""
    start = executed.start_ns
    for each in (executed.slices, executed.updates, executed.executions):
        each[:] = [
            dataclasses.replace(
                one, start_ns=one.start_ns - start, end_ns=one.end_ns - start
            )
            for one in each
        ]
    return executed


def run(kind) -> Timeline:
    """Trains for one execution, after one that compiles."""
    import tensorflow as tf

    from ipufeed.device.config.config import IPUConfig
    from ipufeed.device.program import clock
    from ipufeed.device.program.strategy import IPUStrategy
    from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
    from ipufeed.parallel.pipeline.pipeline import pipeline
    from ipufeed.parallel.timelines import timeline
    from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

    config = IPUConfig()
    config.auto_select_ipus = STAGES
    config.configure_ipu_system()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    strategy = IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(1.0) for _ in range(STAGES)]

    def stage(weight):
        return lambda x: clock.wait(x * weight, STAGE_S)

    def optimizer_function(loss):
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        return OptimizerFunctionOutput(optimizer, loss)

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [stage(each) for each in weights],
            MINI_BATCHES,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer_function,
            pipeline_schedule=kind,
        )

    strategy.run(program)
    with timeline.record() as executed:
        strategy.run(program)
    return executed
