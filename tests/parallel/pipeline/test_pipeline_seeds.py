"""Random operations in pipelines draw by the mini-batch, whatever the order of stages."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import executor as params
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import seeds, system
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
v1 = tf.compat.v1
WIDTH = 64
COUNT = 4
REPEATS = 3


def configure(ipus, recompute):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = recompute
    config.configure_ipu_system()


def train(schedule, recompute=False, ipus=2):
    """Gradients' sums after each of three executions, and what the stages have given.

    The first stage multiplies its weights by ones and drops some, so that the gradient is
    the mask: the forward pass's is in what it gives, the backward pass's in the gradient.
    """
    configure(ipus, recompute)
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.ones(WIDTH, "f")).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        weights = tf.Variable(tf.ones([WIDTH]))

    def first(x):
        return tf.nn.dropout(x * weights, 0.5), x

    def second(x, _):
        noise = tf.random.uniform([WIDTH])
        return tf.reduce_sum(x), x, noise

    def optimizer(loss, *_):
        return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(1.0), loss)

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [first, second],
            gradient_accumulation_count=COUNT,
            repeat_count=REPEATS,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer,
            pipeline_schedule=schedule,
        )

    seeds.reset_ipu_seed(8)
    with strategy.scope():
        strategy.run(program)
    _, dropped, noise = (each.numpy() for each in outfeed.dequeue())
    return weights.numpy(), dropped, noise


@pytest.fixture(scope="module")
def expected():
    """Of the first schedule."""
    try:
        return train(PipelineSchedule.Grouped)
    finally:
        system.reset_ipu_configuration()


def test_each_mini_batch_draws_and_the_gradient_has_the_same_mask(expected):
    """P2 and P5, over all executions of a run."""
    weights, dropped, noise = expected
    masks = dropped != 0

    assert dropped.shape == noise.shape == (COUNT * REPEATS, WIDTH)
    for values in (masks, noise):
        assert len({each.tobytes() for each in values}) == len(values)
    # Each kept weight has the gradient 1 / 0.5 in the mini-batch.
    np.testing.assert_allclose(weights, 1 - 2.0 * masks.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("schedule", PipelineSchedule)
@pytest.mark.parametrize("recompute", [False, True])
def test_schedules_and_recomputation_change_nothing(expected, schedule, recompute):
    """P4: bit for bit what is drawn."""
    weights, dropped, noise = train(schedule, recompute)

    np.testing.assert_array_equal(noise, expected[2])
    np.testing.assert_array_equal(dropped != 0, expected[1] != 0)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-6)


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_copies_of_a_pipeline_draw_other_numbers(schedule):
    """P3: each replica has its own, the first those of one alone."""
    alone = train(PipelineSchedule.Grouped)[2]
    both = train(schedule, ipus=4)[2].reshape([COUNT * REPEATS, 2, WIDTH])

    np.testing.assert_array_equal(both[:, 0], alone)
    assert len({each.tobytes() for each in both.reshape([-1, WIDTH])}) == 2 * len(both)


def draws(executor):
    """What a pipeline of three executions draws, in two runs, and a draw after them."""
    configure(2, False)
    params.set_executor(executor)
    try:
        strategy = IPUStrategy()
        data = tf.data.Dataset.from_tensors(np.ones(2, "f")).repeat()
        infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
        _ = infeed.initializer

        @tf.function(jit_compile=True)
        def program():
            pipeline(
                [lambda x: x * tf.random.uniform([2]), lambda x: x + 0.0],
                gradient_accumulation_count=COUNT,
                repeat_count=REPEATS,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
            )

        tf.random.set_seed(1)  # else seeds of operations depend on the tests before
        seeds.reset_ipu_seed(5)
        with strategy.scope():
            strategy.run(program)
            strategy.run(program)
            later = tf.random.uniform([2])
        return outfeed.dequeue().numpy(), later.numpy()
    finally:
        params.set_executor("xla")


def test_the_executor_draws_what_a_compiled_program_draws():
    """P4: all executions are one run, on the executor, too."""
    found, later = draws("tensorflow")
    expected, expected_later = draws("xla")

    assert found.shape == (2 * COUNT * REPEATS, 2)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(later, expected_later)


def test_a_generator_of_a_stage_draws_what_it_draws_alone():
    """In the order of the mini-batches; its state moves on as after those draws."""
    configure(2, False)
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.float32(0.5)).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        generator = tf.random.Generator.from_seed(3)

    @tf.function(jit_compile=True)
    def program():
        pipeline(
            [lambda x: x, lambda x: x + generator.normal([WIDTH])],
            gradient_accumulation_count=COUNT,
            repeat_count=REPEATS,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
        )

    strategy.run(program)
    with strategy.scope():
        stock = tf.random.Generator.from_seed(3)
        draw = tf.function(lambda: stock.normal([WIDTH]) + 0.5, jit_compile=True)
        expected = [strategy.run(draw) for _ in range(COUNT * REPEATS)]

    np.testing.assert_allclose(outfeed.dequeue(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(generator.state, stock.state)
