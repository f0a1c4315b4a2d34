"""A ring has one reader and one writer: a second caller gets an error, and nothing is lost.

The queues' methods put their calls in order. These programs are made of raw ops, whose
tokens are constants: nothing orders them.
"""

import contextlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from dependence import check_chained, compiled_modules

from ipufeed import _native
from ipufeed.device.program import executor as params
from ipufeed.device.program import loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_outfeed_limit
from ipufeed.queues.chain import host_number

v1 = tf.compat.v1

LIMIT_BYTES = 4 << 30  # the default


def raw_dequeue(queue):
    components, _ = _native.load().ipufeed_dequeue(
        queue._feed_tensor(),
        tf.constant(0, tf.uint32),
        dtypes=[tf.float32],
        shapes=[[]],
    )
    return components[0]


def raw_enqueue(queue, value, token):
    return _native.load().ipufeed_enqueue(
        [tf.constant(value)], host_number(queue._number), token, capacity=1
    )


@pytest.fixture
def gate():
    """Closed until the test opens it, or has ended."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture
def op_by_op():
    """A program would have the calls in an order."""
    with params.executor_scope("tensorflow"):
        yield


@pytest.fixture
def session():
    with tf.Graph().as_default(), v1.Session() as opened:
        yield opened


def test_a_second_dequeue_at_that_time_is_an_error_and_takes_nothing(
    op_by_op, session, gate
):
    def elements():
        gate.wait(60)
        yield from range(10)

    dataset = tf.data.Dataset.from_generator(
        elements, output_signature=tf.TensorSpec([], tf.float32)
    )
    queue = IPUInfeedQueue(dataset)
    session.run(queue.initializer)
    with ipu_scope("/device:IPU:0"):
        both = [raw_dequeue(queue), raw_dequeue(queue)]
        one = queue._dequeue()
    # The first one waits for an element, until the second one has failed.
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        session.run(both)
    assert f"Two calls of infeed queue '{queue._id}' ran at the same time" in str(
        caught.value
    )
    assert "Use the queue's `_dequeue`" in str(caught.value)
    gate.set()
    taken = [session.run(one) for _ in range(10)]
    np.testing.assert_array_equal(taken, np.arange(10))


@pytest.fixture
def small_store():
    """Outfeeds that are made now hold two results at most, until they are taken."""
    set_outfeed_limit(1)
    yield
    set_outfeed_limit(LIMIT_BYTES)


def test_a_second_enqueue_at_that_time_is_an_error_and_gives_nothing(
    op_by_op, session, small_store
):
    queue = IPUOutfeedQueue(buffer_depth=1)
    with ipu_scope("/device:IPU:0"):
        queue._reader.structure = [tf.TensorSpec([], tf.float32)]
        first = raw_enqueue(queue, 0.0, tf.constant(0, tf.uint32))
        second = raw_enqueue(queue, 1.0, first)
        both = [raw_enqueue(queue, 2.0, second), raw_enqueue(queue, 3.0, second)]
    # One goes into the store, one into the ring; the third waits for room.
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        session.run(both)
    assert f"Two calls of outfeed queue '{queue._id}' ran at the same time" in str(
        caught.value
    )
    assert "Use the queue's `enqueue`" in str(caught.value)
    np.testing.assert_array_equal(session.run(queue.dequeue()), [[0.0, 1.0]])


def test_a_compiled_program_orders_raw_calls_in_some_way():
    """It has no order to keep, and makes one: no ring has two callers."""
    dataset = tf.data.Dataset.range(100).map(lambda n: tf.cast(n, tf.float32))
    queue = IPUInfeedQueue(dataset)
    queue.initializer  # noqa: B018
    strategy = IPUStrategy()

    @tf.function(jit_compile=True)
    def program():
        taken = [raw_dequeue(queue) for _ in range(3)]
        matrices = [each * tf.ones([64, 64]) for each in taken]
        return [tf.reduce_sum(each @ each) for each in matrices]

    with strategy.scope(), compiled_modules() as modules:
        sums = [float(each) for each in strategy.run(program)]
    np.testing.assert_allclose(sorted(sums), [64.0**3 * n * n for n in range(3)])
    assert check_chained(modules[0]) == 3


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "executor"])
def test_a_program_keeps_its_queue_while_others_come_and_go(gate, compiled):
    """Others that ask for it again and again get an error, and disturb nothing."""

    def elements():
        yield from range(5)
        gate.wait(60)
        yield from range(5, 20)

    infeed = IPUInfeedQueue(
        tf.data.Dataset.from_generator(
            elements, output_signature=tf.TensorSpec([], tf.int32)
        )
    )
    assert infeed.initializer is None
    strategy = IPUStrategy()

    @tf.function(jit_compile=compiled)
    def total_of(count):
        return loops.repeat(count, lambda total, number: total + number, [0], infeed)

    def run(count):
        with strategy.scope():
            return int(strategy.run(total_of, [tf.constant(count)]))

    run(0)  # traced and compiled
    results = []
    thread = threading.Thread(target=lambda: results.append(run(10)))
    thread.start()
    deadline = time.monotonic() + 60
    while infeed.stats().elements < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    for _ in range(5):
        with pytest.raises(tf.errors.FailedPreconditionError, match="another program"):
            run(1)
    gate.set()
    thread.join(60)

    assert results == [sum(range(10))]
    assert run(1) == 10  # no element is lost


@pytest.mark.parametrize("kind", ["infeed", "outfeed"])
def test_a_program_of_the_executor_keeps_its_queue_between_two_uses(gate, kind):
    """Others come while none of its operations runs; the end of each frees nothing."""
    there = threading.Event()
    infeed = IPUInfeedQueue(
        tf.data.Dataset.range(20).map(lambda n: tf.cast(n, tf.int32))
    )
    assert infeed.initializer is None
    outfeed = IPUOutfeedQueue()
    strategy = IPUStrategy()

    def wait(number):
        if number == 5:
            there.set()
            gate.wait(60)
        return number

    def between(number):
        passed = tf.numpy_function(wait, [number], tf.int32)
        passed.set_shape([])
        return passed

    def count_infeed(total, number):
        return total + between(number)

    def count_outfeed(number):
        enqueued = outfeed.enqueue(number)
        with tf.control_dependencies([enqueued]):
            return between(number) + 1

    @tf.function
    def program(count):
        if kind == "infeed":
            return loops.repeat(count, count_infeed, [0], infeed)
        return loops.repeat(count, count_outfeed, [0])

    def run(count):
        with strategy.scope():
            return int(strategy.run(program, [tf.constant(count)]))

    run(0)
    results = []
    thread = threading.Thread(target=lambda: results.append(run(10)))
    thread.start()
    assert there.wait(60)
    for _ in range(5):
        with pytest.raises(tf.errors.FailedPreconditionError, match="another program"):
            run(1)
    gate.set()
    thread.join(60)

    if kind == "infeed":
        assert results == [sum(range(10))]
        assert run(1) == 10  # no element is lost
    else:
        assert results == [10]
        assert outfeed.dequeue().numpy().tolist() == list(range(10))


def test_two_threads_initialise_one_after_the_other():
    """Each makes another iterator: neither meets the other between its two steps."""
    meeting = threading.Barrier(2)

    class Meets(IPUInfeedQueue):
        def _delete(self):
            # Broken where the other one waits until this one has finished.
            with contextlib.suppress(threading.BrokenBarrierError):
                meeting.wait(0.5)
            return super()._delete()

    queue = Meets(tf.data.Dataset.range(10).map(lambda x: tf.cast(x, tf.int32)))
    _ = queue.initializer
    failed = []

    def start():
        try:
            _ = queue.initializer
        except tf.errors.OpError as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    _ = queue.deleter
