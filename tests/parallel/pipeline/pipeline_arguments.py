"""Pipelines of two stages, for tests of their arguments."""

import tensorflow as tf

from ipufeed.device.program.outside_compilation import building
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUOutfeedQueue

STYLES = ["graph", "function"]
GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule
v1 = tf.compat.v1


def identity(*arguments):
    return arguments


def two_stages():
    return [identity, identity]


def no_optimizer(*arguments):
    raise AssertionError("arguments are looked at before anything is built")


def build(stages=None, count=4, style="graph", **arguments):
    """Builds a pipeline as a part of a graph that is not compiled, or of a tf.function."""
    stages = two_stages() if stages is None else stages
    if style == "function":

        def program(x):
            arguments.setdefault("inputs", [x])
            pipeline(stages, count, **arguments)

        traced = tf.function(program, jit_compile=True)
        return traced.get_concrete_function(tf.TensorSpec([2]))
    with tf.Graph().as_default(), building(traced=False):
        arguments.setdefault("inputs", [v1.placeholder(tf.float32, [2])])
        return pipeline(stages, count, **arguments)


def outfeed(**arguments):
    return IPUOutfeedQueue(**arguments)


# ---- What the optimizer function returns

V1 = {"opt": lambda: v1.train.GradientDescentOptimizer(0.1)}
