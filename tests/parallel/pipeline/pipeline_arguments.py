"""Pipelines of two stages, for tests of their arguments."""

import tensorflow as tf

from ipufeed.device.program.outside_compilation import building
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUOutfeedQueue

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule
v1 = tf.compat.v1


def identity(*arguments):
    return arguments


def two_stages():
    return [identity, identity]


def no_optimizer(*arguments):
    raise AssertionError("arguments are looked at before anything is built")


def build(stages=None, count=4, **arguments):
    """Builds a pipeline in a graph, as a part of a program that is not compiled."""
    with tf.Graph().as_default(), building(traced=False):
        arguments.setdefault("inputs", [v1.placeholder(tf.float32, [2])])
        return pipeline(two_stages() if stages is None else stages, count, **arguments)


def outfeed(**arguments):
    return IPUOutfeedQueue(**arguments)


# ---- What the optimizer function returns

V1 = {"opt": lambda: v1.train.GradientDescentOptimizer(0.1)}
