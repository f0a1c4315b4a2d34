"""Queues and programs that are gone are in no table."""

import ctypes
import gc

import pytest
import tensorflow as tf

from ipufeed import _native
from ipufeed.device.program import compiler, loops, scopes
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


def table_sizes():
    """Infeeds, names of infeeds, outfeeds, names of outfeeds, programs."""
    gc.collect()
    sizes = (ctypes.c_int64 * 5)()
    _native.entry().ipufeed_table_sizes(sizes)
    return list(sizes)


def test_queues_that_are_gone_are_in_no_table():
    """Nor are their names."""

    def cycle():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(0.0).repeat())
        outfeed = IPUOutfeedQueue()
        _ = infeed.initializer

        @tf.function(jit_compile=True)
        def program():
            loops.repeat(2, outfeed.enqueue, infeed_queue=infeed)

        with tf.device("/device:IPU:0"):
            program()
        assert outfeed.dequeue().shape == (2,)

    for _ in range(3):
        cycle()
    before = table_sizes()
    for _ in range(20):
        cycle()

    assert table_sizes()[:4] == before[:4]


@pytest.mark.long
def test_programs_of_closed_sessions_are_in_no_table():
    """But for those that the process keeps for the next session, 32 of them."""

    def cycle(n):
        with tf.Graph().as_default(), v1.Session() as session:
            outfeed = IPUOutfeedQueue()
            with scopes.ipu_scope("/device:IPU:0"):
                done = compiler.compile(  # each time another program
                    lambda: loops.repeat(2, lambda: outfeed.enqueue(float(n)))
                )
            session.run(done)

    for n in range(34):
        cycle(n)
    before = table_sizes()
    for n in range(34, 40):
        cycle(n)

    assert table_sizes()[4] <= before[4] + 3


def test_an_outfeed_lives_as_long_as_a_program_that_uses_it():
    """Its own name may go; the graph can still be run, and its results be dequeued."""
    with tf.Graph().as_default(), v1.Session() as session:

        def build():
            outfeed = IPUOutfeedQueue()
            return outfeed.enqueue(tf.constant(5.0)), outfeed.dequeue()

        enqueued, results = build()
        gc.collect()
        session.run(enqueued)
        gc.collect()

        assert session.run(results).tolist() == [5.0]


def test_a_shape_that_only_the_run_knows_is_refused_and_leaves_an_empty_queue():
    """XLA's own words name neither the queue's method nor a way out."""
    queue = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(number):
        few = tf.where(tf.range(10) < number)[:, 0]
        queue.enqueue(tf.cast(few, tf.int32))

    strategy = IPUStrategy()
    with (
        strategy.scope(),
        pytest.raises(tf.errors.InvalidArgumentError) as caught,
    ):
        strategy.run(program, [tf.constant(3)])

    assert "IPUOutfeedQueue.enqueue: component 0 has the shape" in str(caught.value)
    assert "pad it to a fixed one" in str(caught.value)
    assert queue.dequeue().shape == (0, 0)
