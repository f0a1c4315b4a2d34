"""TensorFlow's `context.graph_mode()` alone: a global graph that nothing has entered.

`test_util.deprecated_graph_mode_only` runs tests in it; `tf.device` names the IPU.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler, loops
from ipufeed.parallel.optimizers.accumulation import (
    GradientAccumulationOptimizerV2,
)
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph_mode(clean_system):
    """A global graph of each test's own."""
    with context.graph_mode():
        v1.reset_default_graph()
        yield
        v1.reset_default_graph()


def results_of(program, outfeed, infeed=None):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        if infeed is not None:
            session.run(infeed.initializer)
        session.run(program)
        return session.run(outfeed.dequeue())


def test_a_pipeline_with_queues():
    infeed = IPUInfeedQueue(
        tf.data.Dataset.from_tensors(np.ones(2, np.float32)).repeat()
    )
    outfeed = IPUOutfeedQueue()
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    stages = [lambda x: x + 1.0, lambda x: x * 2.0]
    with tf.device("/device:IPU:0"):
        program = compiler.compile(
            lambda: pipeline(stages, 4, infeed_queue=infeed, outfeed_queue=outfeed)
        )

    assert results_of(program, outfeed, infeed).tolist() == [[4.0, 4.0]] * 4


def training(outfeed):
    """A loop that returns each loss; weights change at each second step."""

    def body():
        weights = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(weights)
        accumulating = GradientAccumulationOptimizerV2(
            v1.train.MomentumOptimizer(0.1, 0.9), 2
        )
        return outfeed.enqueue(loss), accumulating.minimize(loss)

    return loops.repeat(4, body, [])


@pytest.mark.parametrize("is_compiled", [True, False], ids=["compile", "whole graph"])
def test_a_loop_that_trains_with_accumulated_gradients(is_compiled):
    outfeed = IPUOutfeedQueue()
    with tf.device("/device:IPU:0"):
        if is_compiled:
            program = compiler.compile(lambda: training(outfeed))
        else:
            program = training(outfeed)

    np.testing.assert_allclose(results_of(program, outfeed), [2.0, 2.0, 1.6, 1.6])


def test_a_branch_that_makes_a_variable():
    def net(x):
        def doubled():
            return 2.0 * v1.get_variable("w", initializer=2.0, use_resource=True)

        return tf.cond(x > 1.0, doubled, lambda: x)

    with tf.device("/device:IPU:0"):
        program = compiler.compile(net, [tf.constant(3.0)])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(program) == [4.0]
