"""Hand-over from one thread to another: Python's, TensorFlow's and C++ queues."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import native
from benchmarks.peers import Figure, Group

DEPTH = 1024
ABOUT = """Nanoseconds for an element from one thread to another, in a stream, through a
queue with a capacity of 1024, and the median of a round trip through two of them
(of TensorFlow's the mean: its loops are timed as a whole). The native ones are pinned
to two CPUs, carry a pointer and do not sleep (`benchmarks/cc/ring_bench.cc`); "ring and
waiting" is the feed that a consumer can sleep on; the bare ping-pong of two cache lines
is the floor of a round trip."""
# Case of ring_bench, and its name here.
STREAMS = {
    "ring_pointer": "ipufeed's ring",
    "ring_pointer_batch64": "ipufeed's ring, 64 at a time",
    "feed_pointer": "ipufeed's ring and waiting",
    "boost_pointer": "boost::lockfree::spsc_queue",
    "mutex_pointer": "mutex and condition variable",
}
ROUND_TRIPS = {
    "two_lines_rtt": "bare ping-pong",
    "ring_rtt_pointer": "ipufeed's ring",
    "feed_rtt_pointer": "ipufeed's ring and waiting",
    "boost_rtt_pointer": "boost::lockfree::spsc_queue",
    "mutex_rtt_pointer": "mutex and condition variable",
}


def measure(quick: bool) -> Group:
    """Measures all queues: the stream and the round trip of each."""
    repeats = 3 if quick else 15
    found = native.ring_bench(repeats)["cases"]
    figures = [
        Figure(name, "stream", "ns", tuple(found[case]["ns"]["values"]))
        for case, name in STREAMS.items()
        if case in found
    ]
    elements = 2_000 if quick else 20_000
    slow: dict[tuple[str, str], list[float]] = {}
    for _ in range(max(3, repeats // 3)):
        for name, stream, trip in (
            ("queue.Queue", python_stream, python_round_trip),
            ("tf.queue.FIFOQueue", tensorflow_stream, tensorflow_round_trip),
        ):
            slow.setdefault((name, "stream"), []).append(stream(elements))
            slow.setdefault((name, "round trip"), []).append(trip(elements // 10))
    figures += [
        Figure(name, what, "ns", tuple(values))
        for (name, what), values in slow.items()
        if what == "stream"
    ]
    figures += [
        Figure(name, "round trip", "ns", tuple(found[case]["p50_ns"]["values"]))
        for case, name in ROUND_TRIPS.items()
        if case in found
    ]
    figures += [
        Figure(name, what, "ns", tuple(values))
        for (name, what), values in slow.items()
        if what == "round trip"
    ]
    missing = []
    if not native.has_boost():
        missing.append("boost::lockfree::spsc_queue: apt-get install libboost-dev")
    return Group("Queues between two threads", ABOUT, figures, missing)


def python_stream(elements: int) -> float:
    """Returns the mean nanoseconds of an element: one thread puts, the other gets."""
    fifo: Any = queue.Queue(DEPTH)

    def put() -> None:
        for number in range(elements):
            fifo.put(number)

    writer = threading.Thread(target=put)
    begin = time.perf_counter_ns()
    writer.start()
    for _ in range(elements):
        fifo.get()
    end = time.perf_counter_ns()
    writer.join()
    return (end - begin) / elements


def python_round_trip(elements: int) -> float:
    """Returns the median nanoseconds, out by one queue and back by another."""
    there: Any = queue.Queue(DEPTH)
    back: Any = queue.Queue(DEPTH)

    def answer() -> None:
        while (value := there.get()) is not None:
            back.put(value)

    thread = threading.Thread(target=answer)
    thread.start()
    times = []
    for number in range(elements):
        begin = time.perf_counter_ns()
        there.put(number)
        back.get()
        times.append(time.perf_counter_ns() - begin)
    there.put(None)
    thread.join()
    return float(np.median(times))


def both_sides(
    there: Callable[[Any], Any], here: Callable[[Any], Any], elements: int, *, warm: int
) -> float:
    """Nanoseconds of an element, with one tf.function on a thread and one on this.

    Args:
        there: Handles a number of elements, on the thread.
        here: Likewise, and returns a tensor.
        elements: How many are timed.
        warm: How many go before them, which trace both.
    """
    import tensorflow as tf

    def run(count: int) -> float:
        number = tf.constant(count, tf.int64)
        thread = threading.Thread(target=there, args=[number])
        begin = time.perf_counter_ns()
        thread.start()
        here(number).numpy()
        end = time.perf_counter_ns()
        thread.join()
        return (end - begin) / count

    run(warm)
    return run(elements)


def tensorflow_stream(elements: int) -> float:
    """Returns the mean nanoseconds: two tf.functions with loops, on two threads."""
    import tensorflow as tf

    fifo = tf.queue.FIFOQueue(DEPTH, [tf.int64], shapes=[[]])

    @tf.function
    def put(count: Any) -> None:
        for number in tf.range(count):
            fifo.enqueue(number)

    @tf.function
    def get(count: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for _ in tf.range(count):
            total += fifo.dequeue()
        return total

    return both_sides(put, get, elements, warm=DEPTH)


def tensorflow_round_trip(elements: int) -> float:
    """Returns the mean nanoseconds, with two queues and an answer for each element."""
    import tensorflow as tf

    there, back = (tf.queue.FIFOQueue(1, [tf.int64], shapes=[[]]) for _ in range(2))

    @tf.function
    def ask(count: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for number in tf.range(count):
            there.enqueue(number)
            total += back.dequeue()
        return total

    @tf.function
    def answer(count: Any) -> None:
        for _ in tf.range(count):
            back.enqueue(there.dequeue())

    return both_sides(answer, ask, elements, warm=10)
