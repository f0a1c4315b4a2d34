"""Infeeds in programs: depth, arguments of the body, several queues and programs."""

import functools
import gc
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, threads
from infeed_programs import floats, reading, run_on_ipu

from ipufeed.device.program import loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue


@pytest.mark.parametrize("depth", [1, 2, 3, 10, 255])
def test_the_prefetch_depth_is_a_bound(depth):
    """The ring holds `depth` elements, and the feeder's hand one more."""
    made = []

    def generate():
        for number in range(300):
            made.append(number)
            yield number

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )
    options = tf.data.Options()  # else TensorFlow adds a prefetch of its own
    options.experimental_optimization.inject_prefetch = False
    dataset = dataset.with_options(options)
    infeed, outfeed = IPUInfeedQueue(dataset, prefetch_depth=depth), IPUOutfeedQueue()
    _ = infeed.initializer
    infeed.read_ahead()
    deadline = time.monotonic() + DEADLOCK_S
    while len(made) < depth + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    # The generator is one ahead of what its yield has handed out.
    assert depth + 1 <= len(made) <= depth + 2
    reading(infeed, outfeed)(20)
    assert outfeed.dequeue().numpy().tolist() == list(range(20))
    assert infeed.stats().capacity == depth
    _ = infeed.deleter


def test_the_capacity_counts_the_large_elements_that_are_read_ahead():
    """256 MiB at most: of elements of 96 MiB two."""
    element = tf.zeros([96 << 20], tf.uint8)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(element).repeat())
    _ = infeed.initializer
    infeed.read_ahead()
    deadline = time.monotonic() + DEADLOCK_S
    while infeed.stats().filled < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert infeed.stats().capacity == 2
    _ = infeed.deleter


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (lambda n: n, "one"),
        (lambda n: (n, n + 1.0), "two"),
        (lambda n: {"a": n, "b": n + 1.0}, "keywords"),
        (lambda n: ({"a": n, "b": n + 1.0},), "keywords"),
        (lambda n: (n, {"b": n + 1.0}), "nested"),
    ],
    ids=["tensor", "tuple", "dict", "dict alone in a tuple", "dict in a tuple"],
)
def test_a_body_gets_elements_as_arguments(element, expected):
    """Spread, by keyword for a dict, and as it is inside a longer tuple."""
    bodies = {
        "one": lambda x: x,
        "two": lambda x, y: x + y - y,
        "keywords": lambda a, b: a + b - b,
        "nested": lambda x, d: x + d["b"] - d["b"],
    }
    infeed, outfeed = IPUInfeedQueue(floats.map(element)), IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        def body(*args, **kwargs):
            return outfeed.enqueue(bodies[expected](*args, **kwargs))

        loops.repeat(3, body, infeed_queue=infeed)

    run_on_ipu(program)
    assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0, 2.0]


def test_several_queues_feed_one_program():
    """Each at its own pace, each in order."""
    one, other = IPUInfeedQueue(floats), IPUInfeedQueue(floats.map(lambda x: -x))
    outfeed = IPUOutfeedQueue()
    _, _ = one.initializer, other.initializer

    @tf.function(jit_compile=True)
    def program():
        def body():
            x = one._dequeue()
            return outfeed.enqueue((x, other._dequeue()))

        loops.repeat(100, body)

    run_on_ipu(program)
    x, y = outfeed.dequeue()
    np.testing.assert_array_equal(x, np.arange(100))
    np.testing.assert_array_equal(y, -np.arange(100))


def test_two_programs_cannot_take_from_one_queue_at_a_time():
    """The second is refused, and the first goes on."""
    release = threading.Event()

    def generate():
        yield 1.0
        release.wait(DEADLOCK_S)
        yield 2.0

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.float32)
    )
    infeed, outfeed, other = (
        IPUInfeedQueue(dataset),
        IPUOutfeedQueue(),
        IPUOutfeedQueue(),
    )
    _ = infeed.initializer
    run = reading(infeed, outfeed)
    first = threading.Thread(target=run, args=(2,))
    first.start()
    deadline = time.monotonic() + DEADLOCK_S
    while infeed.stats().elements < 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    with pytest.raises(tf.errors.FailedPreconditionError, match="in use by another"):
        reading(infeed, other)(1)
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="while in use by a program"
    ):
        _ = infeed.deleter
    release.set()
    first.join(DEADLOCK_S)
    assert outfeed.dequeue().numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("ask", [iter, next, list])
def test_a_queue_that_is_iterated_over_names_what_dequeues(ask):
    """The loop, or an iterator of the dataset; in eager mode and in a tf.function."""
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0))
    ask_once = functools.partial(ask, queue)
    for call in (ask_once, tf.function(lambda: ask_once())):
        with pytest.raises(TypeError, match=r"infeed_queue=queue.*`iter\(dataset\)`"):
            call()


def test_get_next_is_obsolete():
    """It says what to do in its place."""
    with pytest.raises(ValueError, match="automatically dequeued by the loop"):
        IPUInfeedQueue(floats).get_next()


def test_a_loop_shows_whether_it_dequeued():
    """`dequeued` follows the programs that are built."""
    infeed, outfeed = IPUInfeedQueue(floats), IPUOutfeedQueue()
    assert not infeed.dequeued
    _ = infeed.initializer
    reading(infeed, outfeed)(1)
    assert infeed.dequeued
    assert infeed.number_of_tuple_elements == 1


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_deleted_queues_leave_nothing_behind(count):
    """No thread, and no file, once they are deleted."""
    outfeed = IPUOutfeedQueue()

    def live():
        infeed = IPUInfeedQueue(floats.prefetch(2))
        _ = infeed.initializer
        infeed.read_ahead()
        _ = infeed.deleter

    live()
    infeed = IPUInfeedQueue(floats)
    _ = infeed.initializer
    reading(infeed, outfeed)(3)
    before = threads()
    for _ in range(count):
        live()
    gc.collect()
    deadline = time.monotonic() + DEADLOCK_S
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threads() <= before


def test_the_default_ordinal_is_the_strategys():
    """Outside of any it is 0."""
    with IPUStrategy("/device:IPU:3").scope():
        assert IPUInfeedQueue(floats)._device_ordinal == 3
    assert IPUInfeedQueue(floats)._device_ordinal == 0


def test_integers_of_numpy_are_numbers():
    dataset = tf.data.Dataset.from_tensors([1.0]).repeat()
    infeed = IPUInfeedQueue(
        dataset, device_ordinal=np.int64(0), prefetch_depth=np.int32(2)
    )
    outfeed = IPUOutfeedQueue(buffer_depth=np.int64(2))
    assert infeed.initializer is None

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(3, lambda x: outfeed.enqueue(x), [], infeed)

    strategy = IPUStrategy()
    with strategy.scope():
        strategy.run(program)
    assert len(list(outfeed.stream(timeout_s=np.float32(10)))) == 3
