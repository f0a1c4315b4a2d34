"""Queues of programs that TensorFlow's executor runs op by op.

one step (Session.run, or a call of a function) = one program: it has its queues to its end
"""

import queue
import threading

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import _native
from ipufeed.device.program import compiler, loops
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.internal_ops import fifo
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def executor():
    with params.executor_scope("tensorflow"):
        yield


def numbers():
    return tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32))


@pytest.fixture
def program():
    """A function that runs (n, infeed, outfeed) eagerly on the IPU."""
    strategy = IPUStrategy()

    def run(n, infeed, outfeed):
        with strategy.scope():

            @tf.function
            def loop():
                return loops.repeat(n, lambda x: outfeed.enqueue(x), [], infeed)

            strategy.run(loop)

    return run


def test_a_stream_ends_with_the_call_of_the_function(program):
    """Not between two enqueues, and not only at the next call."""
    infeed, outfeed = IPUInfeedQueue(numbers()), IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    for first in (0, 50, 100):
        results = []
        reader = threading.Thread(
            target=lambda into=results: into.extend(
                float(result) for result in outfeed.stream(timeout_s=60)
            )
        )
        reader.start()
        program(50, infeed, outfeed)
        reader.join(60)
        assert not reader.is_alive()
        assert results == list(range(first, first + 50))
    infeed.deleter  # noqa: B018


@pytest.mark.parametrize(
    ("takes_all", "delayed"),
    [(False, [0.0, 1.0, 2.0]), (True, [0.0, 0.0, 2.0])],
    ids=["up to the last before", "up to the last"],
)
def test_the_end_of_a_function_is_not_that_of_one_that_began_since(takes_all, delayed):
    """What ends the programs of a call is given the number of the last one before."""
    entry = _native.entry()
    source = queue.SimpleQueue()
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(source.get, None), output_signature=tf.TensorSpec([], tf.float32)
    )
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    strategy = IPUStrategy()

    @tf.function
    def loop():
        return loops.repeat(3, lambda x: outfeed.enqueue(fifo(x, 1)), [], infeed)

    before = entry.ipufeed_last_program()
    thread = threading.Thread(target=strategy.run, args=[loop])
    thread.start()
    source.put(1.0)
    results = outfeed.stream(timeout_s=60)
    found = [float(next(results))]
    entry.ipufeed_end_eager_programs(
        entry.ipufeed_last_program() if takes_all else before
    )
    source.put(2.0)
    source.put(3.0)
    thread.join(60)
    found += [float(result) for result in results]
    source.put(None)

    assert found == delayed  # a program that was ended has lost its state


def test_a_stream_ends_with_a_function_that_fails(program):
    """The results until then come first; the queue can be used again."""
    infeed, outfeed = IPUInfeedQueue(numbers().take(7)), IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    with pytest.raises(tf.errors.OutOfRangeError):
        program(50, infeed, outfeed)
    assert [float(x) for x in outfeed.stream(timeout_s=60)] == list(range(7))
    infeed.deleter  # noqa: B018
    infeed.initializer  # noqa: B018
    program(3, infeed, outfeed)
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1, 2])
    infeed.deleter  # noqa: B018


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_a_dequeue_in_the_step_of_its_program_does_not_wait_for_it(mode):
    """It would wait for itself. What has been enqueued before it is there."""
    with tf.Graph().as_default():
        infeed, outfeed = IPUInfeedQueue(numbers()), IPUOutfeedQueue(mode)
        with ipu_scope("/device:IPU:0"):
            run = compiler.compile(
                lambda: loops.repeat(5, lambda x: outfeed.enqueue(x), [], infeed)
            )
        with tf.control_dependencies([run]):
            results = outfeed.dequeue(wait_for_completion=True)
        with v1.Session() as session:
            session.run(infeed.initializer)
            found = [session.run(results) for _ in range(2)]
            session.run(infeed.deleter)

    if mode is IPUOutfeedMode.LAST:
        assert found == [4.0, 9.0]
    else:
        np.testing.assert_array_equal(found, [range(5), range(5, 10)])


def test_a_queue_belongs_to_one_step_at_a_time():
    """A second session that wants it then gets an error, and disturbs nothing."""
    with tf.Graph().as_default():
        slow = numbers().map(slowly)
        infeed, outfeed = IPUInfeedQueue(slow), IPUOutfeedQueue()
        with ipu_scope("/device:IPU:0"):
            run = compiler.compile(
                lambda: loops.repeat(40, lambda x: outfeed.enqueue(x), [], infeed)
            )
        results = outfeed.dequeue()
        with v1.Session() as session:
            session.run(infeed.initializer)
            thread = threading.Thread(target=session.run, args=[run])
            thread.start()
            while outfeed.stats().elements == 0:
                pass
            with pytest.raises(tf.errors.FailedPreconditionError, match="in use by"):
                session.run(run)
            thread.join(60)
            np.testing.assert_array_equal(session.run(results), range(40))
            session.run(infeed.deleter)


def slowly(x):
    def wait(value):
        threading.Event().wait(0.01)
        return value

    y = tf.numpy_function(wait, [x], tf.float32)
    y.set_shape([])
    return y
