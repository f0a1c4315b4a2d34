"""Faults of memory: bounds hold, and what a caller holds does not change.

dataset of 1 MiB elements --> ring of 4 --> program --> outfeed with a limit
"""

import contextlib
import ctypes
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from feeding import InThread, feeding, numbers, stop_programs, until
from helpers import DEADLOCK_S, live_feeders, rss_bytes

from ipufeed.device.program import loops
from ipufeed.process_state import STATE
from ipufeed.queues import IPUInfeedQueue, set_outfeed_limit

pytestmark = pytest.mark.long

MIB = 1 << 20
SIDE = 512  # 512 x 512 float32 = 1 MiB


def images(n):
    """As many elements of 1 MiB, each full of its number."""
    return tf.data.Dataset.range(n).map(
        lambda i: tf.fill([SIDE, SIDE], tf.cast(i, tf.float32))
    )


def test_a_slow_reader_meets_a_bound():
    """Row 25: 1,000 elements of 1 MiB cross, of which few are alive at a time."""
    set_outfeed_limit(8 * MIB)
    try:
        with feeding(images(1000)) as feeds:
            feeds.run(5)  # compiles
            assert feeds.outfeed.dequeue().shape[0] == 5
            before = rss_bytes()
            run = InThread(feeds.run, 990)
            most = 0
            stream = feeds.outfeed.stream(timeout_s=DEADLOCK_S)
            for number, result in zip(range(5, 995), stream, strict=False):
                assert result[3, 7] == number
                most = max(most, rss_bytes())
            assert run.end() is None
        # The store is in memory twice while it is handed over. Without a bound: 1 GiB.
        assert most - before < 200 * MIB
    finally:
        set_outfeed_limit(4 << 30)


def test_a_reader_that_waits_for_the_end_gets_all():
    """Beyond the bound: the program would otherwise wait for its own reader."""
    set_outfeed_limit(0)
    try:
        with feeding(numbers()) as feeds:
            run = InThread(feeds.run, 1000)
            until(lambda: feeds.outfeed.stats().device_parks > 0)
            assert feeds.outfeed.dequeue(wait_for_completion=True).shape == [1000]
            assert run.end() is None
    finally:
        set_outfeed_limit(4 << 30)


def test_results_that_are_kept_or_written_to_stay_apart():
    """Rows 26 and 27: no buffer is used again under a reference, none is shared."""
    with feeding(images(100)) as feeds:
        kept = []
        for _ in range(5):
            feeds.run(4)
            kept.append(feeds.outfeed.dequeue())
        # NumPy may refuse: TensorFlow may give a view that is read-only.
        with contextlib.suppress(ValueError):
            kept[1].numpy()[:] = -1
        for i, result in enumerate(kept):
            if i != 1:
                expected = np.arange(4 * i, 4 * i + 4)
                np.testing.assert_array_equal(result.numpy()[:, 7, 9], expected)


def test_an_element_larger_than_memory_is_an_error():
    """Row 37: of the allocation, with the queue's name; the process lives on."""

    def huge(i):
        sides = tf.stack([1 << 20, tf.cast(i, tf.int32) + (1 << 22)])
        return tf.ensure_shape(tf.zeros(sides), [1 << 20, 1 << 22])

    # TensorFlow's allocator waits 10 s for each that it cannot have: one element.
    dataset = tf.data.Dataset.range(1).map(huge)
    with (
        feeding(dataset, jit=False) as feeds,
        pytest.raises(tf.errors.OpError, match=r"(?i)oom|memory|exhausted|allocat"),
    ):
        feeds.run(1)


def test_a_shape_that_overflows_is_refused():
    """Row 37: before anything is allocated."""
    spec = tf.TensorSpec([1 << 40, 1 << 40], tf.float32)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="too large"):
        _ = IPUInfeedQueue(
            tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec)
        ).initializer


def test_a_queue_that_is_dropped_stops_its_feeder():
    """Row 22: also one that is in a cycle of references, and with its dataset at work."""
    before = live_feeders()
    queue = IPUInfeedQueue(numbers())
    _ = queue.initializer
    queue.read_ahead()
    assert live_feeders() == before + 1
    gone = weakref.ref(queue)
    queue.itself = queue
    del queue
    gc.collect()
    assert gone() is None
    until(lambda: live_feeders() <= before)


def full(queue, elements):
    """Waits until `elements` have been read ahead."""
    until(lambda: queue.stats().filled == elements)


def test_a_queue_that_is_dropped_frees_what_it_has_read_ahead():
    """At once, and not when another feeder starts or ends on the device.

    TensorFlow's allocator may keep the memory: then the next tensors take it.
    """
    floats = 8 << 20  # 32 MiB
    before, start = live_feeders(), rss_bytes()
    dataset = tf.data.Dataset.range(100).map(
        lambda i: tf.fill([floats], tf.cast(i, tf.float32))
    )
    queue = IPUInfeedQueue(dataset, prefetch_depth=6)
    _ = queue.initializer
    queue.read_ahead()
    full(queue, 6)
    del queue
    gc.collect()
    until(lambda: live_feeders() <= before)
    tensors = [tf.fill([floats], 1.0) for _ in range(6)]
    # Twice six, if they were kept; what else the process allocates is below five.
    assert rss_bytes() < start + (6 + 5) * 4 * floats
    assert len(tensors) == 6


def test_a_queue_lives_as_long_as_a_function_that_uses_it():
    """Row 22: its own name may go; the program still runs."""
    with feeding(numbers()) as feeds:
        feeds.run(1)
        reading = feeds.program
        number = feeds.infeed._number
        _ = feeds.infeed.initializer
        gone = weakref.ref(feeds.infeed)
        feeds.infeed = None
        gc.collect()
        assert gone() is not None
        with tf.device("/device:IPU:0"):
            reading(tf.constant(2))
        feeds.infeed = gone()
        assert feeds.infeed._number == number
        assert stop_programs() == 0


def test_a_queue_that_is_dropped_with_its_function_stops_its_feeder():
    """Row 22: TensorFlow's default graph, around all functions, does not hold it."""
    before = live_feeders()

    def run():
        queue = IPUInfeedQueue(numbers())
        _ = queue.initializer

        @tf.function(jit_compile=True)
        def program():
            return loops.repeat(2, lambda total, x: total + x, [0.0], queue)

        with tf.device("/device:IPU:0"):
            program()
        assert live_feeders() == before + 1
        return weakref.ref(queue)

    gone = run()
    gc.collect()
    assert gone() is None
    until(lambda: live_feeders() <= before)


def test_queues_that_come_and_go_leave_nothing_behind():
    """200 of them: TensorFlow keeps what it has made for an op with its attributes."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1000])).repeat()

    def cycle():
        queue = IPUInfeedQueue(dataset)
        _ = queue.initializer
        queue.read_ahead()
        _ = queue.deleter

    for _ in range(50):
        cycle()
    before = rss_bytes()
    for _ in range(200):
        cycle()
    assert rss_bytes() - before < 6 * MIB  # 13 MiB with a kernel for each


class MallInfo(ctypes.Structure):
    """What glibc's mallinfo2 gives: see its manual page."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def allocated():
    """Bytes that native code has allocated and not freed."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = MallInfo
    found = mallinfo2()
    return found.uordblks + found.hblkhd


def test_functions_that_come_and_go_leave_no_graphs_behind():
    """TensorFlow keeps those from which it makes a kernel: 0.3 MB for each function."""

    def compiled(number):
        def body(total):
            return total * float(number) + 1.0

        @tf.function(jit_compile=True)
        def program():
            return loops.repeat(number, body, [0.0])

        with tf.device("/device:IPU:0"):
            program()

    def cycle(numbers):
        for number in numbers:
            compiled(number)
        STATE.reset()
        gc.collect()

    cycle(range(2, 22))
    before = allocated()
    # The device's programs of the last cycle go with the first program of the next one.
    cycle(range(22, 42))
    cycle(range(42, 62))
    assert allocated() - before < 4 * MIB  # 15 MiB with the graphs
