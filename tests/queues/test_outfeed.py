"""What an outfeed queue promises: every result once, in order, during a run and after."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from outfeed_programs import Tap, counting, started

from ipufeed.queues import (
    IPUOutfeedMode,
    IPUOutfeedQueue,
    IPUOutfeedQueueIterator,
    set_outfeed_limit,
)


def await_elements(queue, count):
    deadline = time.monotonic() + DEADLOCK_S
    while queue.stats().elements < count and time.monotonic() < deadline:
        time.sleep(0.005)


def test_all_gives_what_is_new_and_an_empty_result_for_nothing():
    """In order; the second dequeue has only what came after the first."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed)
    run(5)
    run(2)
    assert outfeed.dequeue().numpy().tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert outfeed.dequeue().shape == (0,)
    run(1)
    assert outfeed.dequeue().numpy().tolist() == [0]


def test_the_structure_is_that_of_the_enqueue():
    """Each tensor with the results stacked in front."""
    outfeed = IPUOutfeedQueue()
    counting(outfeed, lambda i: {"a": i, "b": (i * 2, tf.fill([2, 3], i))})(4)
    results = outfeed.dequeue()
    assert results["a"].shape == (4,)
    assert results["b"][0].numpy().tolist() == [0, 2, 4, 6]
    assert results["b"][1].shape == (4, 2, 3)


@pytest.mark.parametrize("depth", [1, 2, 3, 100])
def test_a_program_without_a_reader_continues(depth):
    """Its results are kept, many more than the ring holds."""
    outfeed = IPUOutfeedQueue(buffer_depth=depth)
    counting(outfeed)(10_000)
    np.testing.assert_array_equal(outfeed.dequeue(), np.arange(10_000))
    assert outfeed.stats().capacity == depth


@pytest.mark.parametrize("shape", [[3], [200, 100], [600, 600]])
def test_large_results_keep_their_content(shape):
    """From some bytes on to megabytes, one or several."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed, lambda i: tf.fill(shape, i))
    for n in (1, 3):
        run(n)
        results = outfeed.dequeue().numpy()
        assert results.shape == (n, *shape)
        for i in range(n):
            assert (results[i] == i).all()


def test_results_that_are_kept_do_not_change():
    """Whatever runs later: a content check over many runs."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed, lambda i: tf.fill([150, 150], i))
    kept = []
    for _ in range(10):
        run(3)
        kept.append(outfeed.dequeue().numpy())
    for results in kept:
        assert [float(result.mean()) for result in results] == [0.0, 1.0, 2.0]


def test_last_gives_the_last_value_once():
    """And says so when there is none."""
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    run = counting(outfeed, lambda i: (i, i * 2))
    run(5)
    assert [value.numpy() for value in outfeed.dequeue()] == [4.0, 8.0]
    with pytest.raises(tf.errors.FailedPreconditionError, match="the last value"):
        outfeed.dequeue()
    run(2)
    assert outfeed.dequeue()[0].numpy() == 1.0
    run(2)
    _ = outfeed.deleter
    with pytest.raises(tf.errors.FailedPreconditionError, match="the last value"):
        outfeed.dequeue()


def test_last_waits_for_the_end_of_the_run():
    """Another thread that asks in the middle of it gets the last value of all."""
    tap, outfeed = Tap(), IPUOutfeedQueue(IPUOutfeedMode.LAST)
    program = started(tap, outfeed, 3)
    tap.turns.release(2)
    await_elements(tap.infeed, 2)
    values = []
    reader = threading.Thread(target=lambda: values.append(outfeed.dequeue().numpy()))
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    tap.turns.release(1)
    reader.join(DEADLOCK_S)
    program.join(DEADLOCK_S)
    assert values == [2.0]


def test_another_thread_gets_partial_results():
    """While the program runs; a caller that wants all waits."""
    tap, outfeed = Tap(), IPUOutfeedQueue()
    program = started(tap, outfeed, 3)
    tap.turns.release(2)
    await_elements(outfeed, 2)
    assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0]
    waiting = []
    reader = threading.Thread(
        target=lambda: waiting.append(outfeed.dequeue(wait_for_completion=True).numpy())
    )
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    tap.turns.release(1)
    reader.join(DEADLOCK_S)
    program.join(DEADLOCK_S)
    assert waiting[0].tolist() == [2.0]


def test_dequeue_before_any_enqueue_gives_nothing():
    """On every thread in eager mode: a thread can be started before the program."""
    outfeed = IPUOutfeedQueue()
    results = [outfeed.dequeue()]
    reader = threading.Thread(target=lambda: results.append(outfeed.dequeue()))
    reader.start()
    reader.join(DEADLOCK_S)
    assert results == [[], []]
    assert list(outfeed) == []


@pytest.mark.parametrize("shape", [None, [None, 3]])
def test_a_dequeue_after_the_deleter_has_the_shapes_of_the_deleted_results(shape):
    """Also of sizes that the trace did not know, until another program gives results."""
    outfeed = IPUOutfeedQueue()

    @tf.function(input_signature=[tf.TensorSpec(shape)])
    def program(x):
        outfeed.enqueue({"x": x})

    for rows in (2, 4):
        program(tf.ones([rows, 3]))
        _ = outfeed.deleter  # without a dequeue before it
        for _ in range(2):
            assert outfeed.dequeue()["x"].shape == (0, rows, 3)
    _ = outfeed.deleter  # there is nothing to delete
    assert outfeed.dequeue()["x"].shape == (0, 4, 3)
    outfeed.enqueue(tf.ones([5]))
    _ = outfeed.deleter
    assert outfeed.dequeue().shape == (0, 5)


def test_a_body_enqueues_once():
    """Twice in one body is refused; another body may again."""
    outfeed = IPUOutfeedQueue()

    @tf.function
    def twice(x):
        outfeed.enqueue(x)
        outfeed.enqueue(x)

    with pytest.raises(ValueError, match="only be enqueued once in the same body"):
        twice(1.0)
    counting(outfeed)(2)
    counting(outfeed)(1)
    assert outfeed.dequeue().numpy().tolist() == [0, 1, 0]
    assert outfeed.enqueued


def test_another_shape_is_refused():
    """As long as the outfeed of the first shape is there."""
    outfeed = IPUOutfeedQueue()
    counting(outfeed)(1)
    run = counting(outfeed, lambda i: tf.fill([2], i))
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="different tensor shape"
    ):
        run(1)
    _ = outfeed.deleter
    run(1)
    assert outfeed.dequeue().shape == (1, 2)


@pytest.mark.parametrize(
    ("tensor", "error", "words"),
    [
        (lambda: tf.constant(1, tf.int64), tf.errors.FailedPreconditionError, "int64"),
        (lambda: tf.constant(1.0, tf.float64), tf.errors.FailedPreconditionError, "64"),
        (lambda: tf.constant("x"), tf.errors.FailedPreconditionError, "string"),
        (
            lambda: tf.zeros([2, 0]),
            tf.errors.InvalidArgumentError,
            "dimension of size 0",
        ),
        (
            lambda: tf.zeros([1] * 253),
            tf.errors.InvalidArgumentError,
            "at most 252 dimensions, and tensor 0 has 253",
        ),
    ],
)
def test_what_a_feed_cannot_carry_is_refused(tensor, error, words):
    """When the program is built."""
    outfeed = IPUOutfeedQueue()

    @tf.function
    def program():
        outfeed.enqueue(tensor())

    with pytest.raises(error, match=words):
        program()


@pytest.mark.parametrize("rank", [252, 253, 254])
def test_a_rank_that_no_dequeue_has_is_refused_when_it_is_known(rank):
    """A tensor of 255 dimensions would end the process."""
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec(None)])
    def program(tensor):
        outfeed.enqueue(tensor)

    def run():
        with tf.device("/device:IPU:0"):
            program(tf.ones([1] * rank))

    if rank == 252:
        run()
        assert outfeed.dequeue().shape == [1] * 253
    else:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"at most 252 .* 0 has {rank}"
        ):
            run()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"outfeed_mode": "all"}, "IPUOutfeedMode` type, but is str"),
        ({"buffer_depth": 0}, "cannot be less than 1, got 0"),
        ({"buffer_depth": 1.5}, "must be an integer"),
        ({"device_ordinal": "0"}, "Device ordinal must be an integer, got '0'"),
        ({"device_ordinal": -1}, "Device ordinal must be >= 0"),
        ({"device_ordinal": 99}, "There is no /device:IPU:99"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, words):
    """With the words of the original where it has any."""
    with pytest.raises(ValueError, match=words):
        IPUOutfeedQueue(**arguments)


@pytest.mark.parametrize("limit", [-1, 2**63, 1.5, True, None, np.float32(3)])
def test_a_limit_that_is_not_a_count_of_bytes_is_refused(limit):
    """With what was given; an integer of NumPy's is one."""
    with pytest.raises(ValueError, match="an integer >= 0 of bytes, and below 2"):
        set_outfeed_limit(limit)
    set_outfeed_limit(np.int64(4 << 30))


def test_an_iterator_of_something_else_is_refused():
    """When it is made, and not at the first result."""
    with pytest.raises(
        TypeError, match=r"`queue` must be an IPUOutfeedQueue, got list"
    ):
        IPUOutfeedQueueIterator([])
