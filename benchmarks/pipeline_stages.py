"""Pipelines to measure: stages that wait, and stages that only pass data on."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import clock
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue


class Stages:
    """A pipeline of stages, each on its IPU, without training.

    Args:
        seconds: The wait of each stage, for a device that computes elsewhere. Default: 0.
        elements: The elements of the float32 tensor that passes through. Default: 1.
        count: Mini-batches of an execution. Default: 32.
        repeat: Executions of a program. Default: 1.
        stages: At least 2. Default: 4.
        schedule: A PipelineSchedule. Default: Grouped.

    It configures the IPUs: only the one that was made last can be run.
    """

    STAGES = 4

    def __init__(
        self,
        seconds: float = 0.0,
        elements: int = 1,
        count: int = 32,
        repeat: int = 1,
        stages: int = STAGES,
        schedule: PipelineSchedule = PipelineSchedule.Grouped,
    ) -> None:
        config = IPUConfig()
        config.auto_select_ipus = stages
        config.configure_ipu_system()
        self.count = count * repeat
        self.slots = repeat * (count + stages - 1)
        self.ideal_s = self.slots * seconds
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
        self.outfeed = IPUOutfeedQueue()
        _ = infeed.initializer

        def work(x: Any) -> Any:
            return clock.wait(x, seconds) if seconds else x + 1.0

        def first(x: Any) -> Any:
            return work(tf.fill([elements], x))

        def last(x: Any) -> Any:
            return work(x)[0]

        @tf.function(jit_compile=True)
        def program() -> Any:
            return pipeline(
                [first, *[work] * (stages - 2), last],
                count,
                repeat_count=repeat,
                infeed_queue=infeed,
                outfeed_queue=self.outfeed,
                accumulate_outfeed=True,
                pipeline_schedule=schedule,
            )

        self.program = program
        self.strategy = IPUStrategy()
        self.run()  # compiles

    def run(self) -> None:
        """Runs the program once, and discards its results."""
        self.strategy.run(self.program)
        self.outfeed.dequeue()
