"""Steps on several IPUs: each costs its time from when what it waits for is there."""

import pytest
import tensorflow as tf
from replicated import configure

from ipufeed.device.program import loops
from ipufeed.device.program.steps import step, to_times
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives.ops import cross_replica_sum, replication_index
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

STEP_S = 0.005


@pytest.mark.parametrize("copies", [1, 2])
def test_a_step_begins_when_what_another_ipu_sends_is_there(clean_system, copies):
    """One mini-batch on its way, two executions: no wait for it is made up for."""
    configure(2 * copies)
    dataset = tf.data.Dataset.from_tensors(1.0).repeat()
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer

    def first(x):
        return x, step(STEP_S)

    def second(x, times):
        return times, step(STEP_S)

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [first, second],
            4,
            repeat_count=2,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            pipeline_schedule=PipelineSchedule.Sequential,
        )

    IPUStrategy().run(program)
    for found in zip(
        *(tf.unstack(part, copies, 1) for part in parts(outfeed, copies)), strict=True
    ):
        one, other = map(to_times, found)
        assert one.end.shape == (8,)
        assert (other.start >= one.end).all()
        assert (one.start[1:] >= other.end[:-1]).all()


def test_a_step_begins_when_all_replicas_have_come_to_the_collective_before(
    clean_system,
):
    """A replica that is faster waits for the other, and does not make up for it."""
    configure(2)
    outfeed = IPUOutfeedQueue()

    def body():
        slower = tf.cast(replication_index(), tf.float64)
        times = step(STEP_S + 4 * STEP_S * slower)
        together = cross_replica_sum(tf.constant(1.0))
        with tf.control_dependencies([together]):
            return outfeed.enqueue(times)

    @tf.function(jit_compile=True)
    def program():
        return loops.repeat(8, body)

    IPUStrategy().run(program)
    fast, slow = (to_times(each) for each in tf.unstack(outfeed.dequeue(), 2, 1))
    assert fast.end.shape == (8,)
    assert (fast.start[1:] >= slow.end[:-1]).all()


def parts(outfeed, copies):
    """What the two stages have enqueued, with an axis for the copies."""
    return [
        tf.reshape(part, [-1, copies, 8]) for part in tf.nest.flatten(outfeed.dequeue())
    ]


@pytest.mark.parametrize("kind", ["repeat", "while_loop"])
def test_a_loop_in_a_stage_has_gradients(clean_system, kind):
    """It gets a bound, since the gradients are built without a tape."""
    configure(2)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors([1.0, 1.0]).repeat())
    _ = infeed.initializer
    strategy = IPUStrategy()
    with strategy.scope():
        weight = tf.Variable([1.0, 1.0])
        optimizer = tf.keras.optimizers.SGD(0.01)

    def cubed(x):
        if kind == "repeat":
            return loops.repeat(3, lambda each: each * weight, [x])
        return loops.while_loop(
            lambda i, _: i < 3,
            lambda i, each: (i + 1, each * weight),
            (0, x),
            maximum_iterations=3,
        )[1]

    def update(loss):
        return OptimizerFunctionOutput(optimizer, loss, variables=[weight])

    @tf.function(jit_compile=True)
    def program():
        pipeline(
            [cubed, tf.reduce_sum],
            4,
            infeed_queue=infeed,
            outfeed_queue=IPUOutfeedQueue(),
            optimizer_function=update,
        )

    strategy.run(program)
    tf.debugging.assert_near(weight, [0.88, 0.88])  # 1 - 0.01 * 4 * 3
