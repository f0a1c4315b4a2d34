"""An outfeed's results one by one: iteration, streams, scoped queues and graphs."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from outfeed_programs import Tap, counting, started

from ipufeed.device.program import compiler, loops, scopes
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedMode,
    IPUOutfeedQueue,
    ScopedIPUOutfeedQueue,
)

v1 = tf.compat.v1


def test_iteration_yields_what_is_there_now():
    """And a later loop goes on."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed, lambda i: {"x": i})
    run(3)
    assert [float(result["x"]) for result in outfeed] == [0, 1, 2]
    assert list(outfeed) == []
    run(2)
    assert sum(float(result["x"]) for result in outfeed) == 1.0


def test_iteration_needs_eager_mode_and_all():
    """Else it says which of them is missing."""
    with pytest.raises(RuntimeError, match=r"IPUOutfeedMode\.ALL"):
        iter(IPUOutfeedQueue(IPUOutfeedMode.LAST))
    with tf.Graph().as_default():
        outfeed = IPUOutfeedQueue()
        for ask in (iter, lambda queue: queue.stream()):
            with pytest.raises(RuntimeError, match="in eager mode"):
                ask(outfeed)


def test_a_stream_has_each_result_while_the_program_runs():
    """Begun before the program, it ends with it."""
    tap, outfeed = Tap(), IPUOutfeedQueue()
    seen = []
    reader = threading.Thread(
        target=lambda: seen.extend(float(x) for x in outfeed.stream())
    )
    reader.start()
    program = started(tap, outfeed, 4)
    for count in (1, 2, 3):
        tap.turns.release(1)
        deadline = time.monotonic() + DEADLOCK_S
        while len(seen) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        assert seen == [0.0, 1.0, 2.0][:count]
        assert program.is_alive()
    tap.turns.release(1)
    reader.join(DEADLOCK_S)
    assert not reader.is_alive()
    assert seen == [0.0, 1.0, 2.0, 3.0]
    program.join(DEADLOCK_S)


def test_a_stream_after_the_program_gives_its_results_and_ends():
    """The next one waits for another run."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed)
    run(3)
    assert [float(x) for x in outfeed.stream()] == [0, 1, 2]
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"no result for 0\.05 s"):
        list(outfeed.stream(timeout_s=0.05))
    run(1)
    assert [float(x) for x in outfeed.stream(timeout_s=0)] == [0]


def test_a_stream_after_a_deleter_ends_with_its_program():
    """Runs that were observed before the deleter are not those of the new outfeed."""
    outfeed = IPUOutfeedQueue()
    run = counting(outfeed)
    run(3)
    assert len(outfeed.dequeue()) == 3
    _ = outfeed.deleter
    run(3)
    assert [float(x) for x in outfeed.stream(timeout_s=DEADLOCK_S)] == [0, 1, 2]
    run(2)
    assert len([*outfeed.stream(timeout_s=DEADLOCK_S)]) == 2
    _ = outfeed.deleter
    run(2)
    assert len([*outfeed.stream(timeout_s=DEADLOCK_S)]) == 2


def test_a_stream_ends_with_a_program_that_fails():
    """Also if it fails before its first result."""
    for elements in (2, 0):
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat(elements))
        outfeed = IPUOutfeedQueue()
        _ = infeed.initializer
        seen = []
        reader = threading.Thread(
            target=lambda outfeed=outfeed, seen=seen: seen.extend(outfeed.stream())
        )
        reader.start()

        @tf.function(jit_compile=True)
        def program(infeed=infeed, outfeed=outfeed):
            loops.repeat(5, outfeed.enqueue, infeed_queue=infeed)

        with (
            tf.device("/device:IPU:0"),
            pytest.raises(tf.errors.OutOfRangeError),
        ):
            program()
        reader.join(DEADLOCK_S)
        assert not reader.is_alive()
        assert len(seen) == elements


def test_a_failure_before_a_stream_does_not_end_it():
    """Of another program on the same IPU: the stream waits for its own."""
    empty = IPUInfeedQueue(tf.data.Dataset.range(0).map(lambda n: tf.cast(n, tf.int32)))
    outfeed = IPUOutfeedQueue()
    _ = empty.initializer

    @tf.function(jit_compile=True)
    def failing():
        loops.repeat(1, lambda x: None, infeed_queue=empty)

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(3, lambda: outfeed.enqueue(1.0))

    with tf.device("/device:IPU:0"):
        with pytest.raises(tf.errors.OutOfRangeError):
            failing()
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(outfeed.stream()))
        reader.start()
        reader.join(0.2)
        assert reader.is_alive()
        program()
    reader.join(DEADLOCK_S)
    assert len(seen) == 3


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_a_time_out_must_be_a_time(timeout):
    """Else it is refused before anything waits."""
    with pytest.raises(ValueError, match="timeout_s must be a number of seconds"):
        IPUOutfeedQueue().stream(timeout_s=timeout)


def test_a_scoped_queue_deletes_itself():
    """With the last reference; and only in eager mode."""
    from ipufeed import _native

    outfeed = ScopedIPUOutfeedQueue()
    counting(outfeed)(3)
    number = outfeed._number
    assert _native.entry().ipufeed_outfeed_runs(number) == 1
    del outfeed
    import gc

    tf.keras.backend.clear_session()
    gc.collect()
    assert _native.entry().ipufeed_outfeed_runs(number) == 0
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="in eager mode"):
        ScopedIPUOutfeedQueue()


@pytest.mark.parametrize("use_while_v1", [True, False])
def test_a_graph_dequeues_with_an_op(use_while_v1):
    """Version 1: the program and the dequeue are two ops of one session."""
    with tf.Graph().as_default(), v1.Session() as session:
        outfeed, last = IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)
        with pytest.raises(ValueError, match="has not been enqueued"):
            outfeed.dequeue()

        def body(i):
            return i + 1.0, outfeed.enqueue({"i": i}), last.enqueue(i * 2)

        def net():
            return loops.repeat(4, body, [0.0], use_while_v1=use_while_v1)

        with scopes.ipu_scope("/device:IPU:0"):
            program = compiler.compile(net)
        results, value = outfeed.dequeue(), last.dequeue()
        waiting = outfeed.dequeue(wait_for_completion=True)
        assert session.run(results)["i"].shape == (0,)
        with pytest.raises(tf.errors.FailedPreconditionError, match="the last value"):
            session.run(value)
        assert session.run(program) == [4.0]
        assert session.run(waiting)["i"].tolist() == [0, 1, 2, 3]
        assert session.run(value) == 6.0
        session.run(outfeed.deleter)


def test_order_holds_with_heavy_work_between_the_calls():
    """Three dequeues and two enqueues per iteration, with matmul chains between them.

    XLA moves calls that do not depend on each other; a trivial body hides that.
    """
    infeeds = [
        IPUInfeedQueue(
            tf.data.Dataset.range(200).map(
                lambda n: tf.fill([24, 24], tf.cast(n, tf.float32))
            )
        )
        for _ in range(3)
    ]
    outfeeds = [IPUOutfeedQueue() for _ in range(2)]
    order = IPUOutfeedQueue()
    for infeed in infeeds:
        _ = infeed.initializer

    def chain(x):
        for _ in range(4):
            x = tf.matmul(x, x) * 0.0 + x
        return x

    @tf.function(jit_compile=True)
    def program():
        def body(i):
            a = chain(infeeds[0]._dequeue())
            first = outfeeds[0].enqueue(a[0, 0])
            b = chain(infeeds[1]._dequeue())
            second = outfeeds[1].enqueue(b[0, 0])
            c = infeeds[2]._dequeue()
            third = order.enqueue((i, c[0, 0]))
            del first, second, third
            return i + 1.0

        loops.repeat(200, body, [0.0])

    with tf.device("/device:IPU:0"):
        program()
    expected = np.arange(200, dtype=np.float32)
    for outfeed in outfeeds:
        np.testing.assert_array_equal(outfeed.dequeue(), expected)
    i, c = order.dequeue()
    np.testing.assert_array_equal(i, expected)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(
    "element",
    [
        1.5,
        (1.5, np.int32(7)),
        {"b": np.ones([2, 3], np.float16), "a": (True, np.uint8(255))},
        [np.full([3], -1, np.int8)],
        np.arange(20_000, dtype=np.float32),  # too large to be copied on the way
    ],
    ids=["scalar", "tuple", "nest", "list", "large"],
)
def test_a_stream_gives_structure_dtypes_and_values_as_enqueued(element):
    """Small results come by a way of their own; nothing of it can be seen."""
    tap, outfeed = Tap(), IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(3, lambda _: outfeed.enqueue(element), infeed_queue=tap.infeed)

    def run():
        with tf.device("/device:IPU:0"):
            program()

    thread = threading.Thread(target=run)
    thread.start()
    results = []
    tap.turns.release()
    for result in outfeed.stream(timeout_s=DEADLOCK_S):
        results.append(result)
        tap.turns.release()  # so that each finds the reader asleep
    thread.join()

    assert len(results) == 3
    expected = tf.nest.map_structure(tf.convert_to_tensor, element)
    for result in results:
        tf.nest.assert_same_structure(result, expected)
        for one, other in zip(
            tf.nest.flatten(result), tf.nest.flatten(expected), strict=True
        ):
            assert one.dtype == other.dtype
            assert one.device == other.device
            np.testing.assert_array_equal(one, other)


def test_a_result_of_a_stream_keeps_its_values_when_the_next_one_comes():
    """Each has memory of its own, whatever its size and alignment."""
    tap, outfeed = Tap(), IPUOutfeedQueue()
    sizes = [1, 16, 250, 4000]

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(
            8,
            lambda x: outfeed.enqueue([tf.fill([size], x) for size in sizes]),
            infeed_queue=tap.infeed,
        )

    def run():
        with tf.device("/device:IPU:0"):
            program()

    thread = threading.Thread(target=run)
    thread.start()
    results = []
    tap.turns.release()
    for result in outfeed.stream(timeout_s=DEADLOCK_S):
        results.append(result)
        tap.turns.release()
    thread.join()

    for number, result in enumerate(results):
        for size, tensor in zip(sizes, result, strict=True):
            np.testing.assert_array_equal(tensor, np.full([size], float(number)))
    assert len(results) == 8
