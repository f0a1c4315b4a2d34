"""Pipelines of known stages."""

import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue


def program_of(dataset, stages, count, strategy=None, **arguments):
    """A pipeline in a tf.function, and what runs it."""
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            stages, count, infeed_queue=infeed, outfeed_queue=outfeed, **arguments
        )

    return lambda: (strategy or IPUStrategy()).run(program), outfeed


def numbers(count):
    return tf.data.Dataset.range(count).map(lambda i: tf.cast(i, tf.float32))


STAGES = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x - 1.0]
