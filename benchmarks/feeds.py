"""Programs with queues, as the benchmarks of loops and queues run them.

What is timed is the queues and the loop. The datasets therefore cost 0.5 us an element:
one tensor again and again, without AUTOTUNE, whose hand-over between threads takes
longer than all that is measured here.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.iterate import bare


def source(tensors: Any) -> Any:
    """Returns a dataset that repeats `tensors` endlessly, at half a microsecond each."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors(tensors).repeat().with_options(options)


def slow_source(seconds: float) -> Any:
    """Returns an int32 scalar every `seconds` seconds, without CPU.

    AUTOTUNE would add a buffer that fills between reads: later elements then take no time.
    """
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensors(tf.constant(1, tf.int32)).repeat()
    return dataset.apply(testing.sleep(round(seconds * 1e6))).with_options(options)


def infeed(dataset: Any, **arguments: Any) -> Any:
    """Returns an infeed queue that is initialized."""
    from ipufeed.queues import IPUInfeedQueue

    queue = IPUInfeedQueue(dataset, **arguments)
    _ = queue.initializer
    return queue


def program(
    body: Callable[..., Any],
    inputs: list[Any],
    infeed_queue: Any = None,
    ordinal: int = 0,
) -> Callable[[int], Any]:
    """Returns a compiled loop as a function of n, which returns at the end of the loop."""
    import tensorflow as tf

    from ipufeed.device.program import loops

    @tf.function(jit_compile=True, autograph=False)
    def compiled(n: Any) -> Any:
        return loops.repeat(n, body, inputs, infeed_queue)

    def run(n: int) -> Any:
        with tf.device(f"/device:IPU:{ordinal}"):
            return compiled(tf.constant(n, tf.int32))

    run(0)  # compiles; takes nothing from the queue
    return run


def seconds(call: Callable[[], Any]) -> float:
    """Measures the wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Trivial:
    """x + element, with an element in and a result out in each iteration."""

    def __init__(self) -> None:
        import tensorflow as tf

        from ipufeed.queues import IPUIterator, IPUOutfeedQueue

        zero = tf.zeros([])
        self.outfeed = IPUOutfeedQueue()
        self._dataset = source(zero)
        self._queue = infeed(self._dataset)
        self.loop = program(
            lambda x, y: (x + y, self.outfeed.enqueue(x)), [zero], self._queue
        )
        self.without_queues = program(lambda x: x + 1.0, [zero])
        self._taken = IPUOutfeedQueue()
        iterator = IPUIterator(source(zero))

        @tf.function(jit_compile=True, autograph=False)
        def step(x: Any) -> Any:
            x += next(iterator)
            self._taken.enqueue(x)
            return x

        self._step = step

    def source_seconds(self, n: int) -> float:
        """Returns the seconds of n elements of the infeed, in a bare C++ loop."""
        return n * bare(self._dataset, n).wall

    def python_loop(self, n: int) -> None:
        """Runs the same iteration n times as a compiled function, called from Python."""
        import tensorflow as tf

        with tf.device("/device:IPU:0"):
            x = tf.zeros([])
            for _ in range(n):
                x = self._step(x)
            x.numpy()
        self._taken.dequeue()


class Training:
    """One step of SGD on a network of 784-128-10 units, batches of 32."""

    def __init__(self) -> None:
        import tensorflow as tf

        from ipufeed.queues import IPUOutfeedQueue

        random = tf.random.Generator.from_seed(0)
        images = random.uniform([32, 784])
        labels = tf.range(32, dtype=tf.int32) % 10
        weights = [
            0.05 * random.normal([784, 128]),
            tf.zeros([128]),
            0.05 * random.normal([128, 10]),
            tf.zeros([10]),
        ]
        self.outfeed = IPUOutfeedQueue()

        def step(weights: list[Any], x: Any, y: Any) -> tuple[list[Any], Any]:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                w1, b1, w2, b2 = weights
                logits = tf.nn.relu(x @ w1 + b1) @ w2 + b2
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_mean(losses)
            slopes = tape.gradient(loss, weights)
            return [w - 0.01 * g for w, g in zip(weights, slopes, strict=True)], loss

        def fed(*arguments: Any) -> Any:
            *held, x, y = arguments
            held, loss = step(held, x, y)
            return *held, self.outfeed.enqueue(loss)

        # Each step takes another of two batches that are on the device. With the same
        # batch in each, XLA would transpose it before the loop, once.
        def unfed(*arguments: Any) -> Any:
            *held, i, batches, y, _ = arguments
            held, loss = step(held, batches[i % 2], y)
            return *held, i + 1, batches, y, loss

        self.loop = program(fed, weights, infeed(source((images, labels))))
        batches = tf.stack([images, 0.5 * images])
        self.without_queues = program(
            unfed, [*weights, tf.constant(0), batches, labels, tf.zeros([])]
        )


def result_latencies(results: int) -> list[float]:
    """Returns seconds from an enqueue until a thread that slept in `stream` has the result.

    The program enqueues one in about a millisecond, so that the thread does sleep.
    """
    from ipufeed.device.program.clock import read_clock, to_ns
    from ipufeed.queues import IPUOutfeedQueue

    outfeed = IPUOutfeedQueue()
    run = program(
        lambda element: outfeed.enqueue(read_clock()), [], infeed(slow_source(1e-3))
    )
    latencies: list[float] = []

    def read() -> None:
        for stamp in outfeed.stream(timeout_s=60.0):
            now = time.monotonic_ns()
            latencies.append((now - int(to_ns(stamp.numpy()))) / 1e9)

    reader = threading.Thread(target=read)
    reader.start()
    warm_up = 50
    run(warm_up + results)
    reader.join()
    return latencies[warm_up:]


def pipe_latencies(stamps: int) -> list[float]:
    """Returns seconds from a write to a pipe until a thread that slept in its read runs.

    What a wake-up in Python takes here: nothing is converted, and no program runs.
    """
    reading, writing = os.pipe()
    latencies: list[float] = []

    def read() -> None:
        for _ in range(stamps):
            stamp = os.read(reading, 8)
            now = time.monotonic_ns()
            latencies.append((now - int.from_bytes(stamp, "little")) / 1e9)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(stamps):
        time.sleep(1e-3)
        os.write(writing, time.monotonic_ns().to_bytes(8, "little"))
    reader.join()
    os.close(reading)
    os.close(writing)
    return latencies


class Scalars:
    """A program that enqueues scalars, and the dequeue of all of them."""

    def __init__(self) -> None:
        import tensorflow as tf

        from ipufeed.queues import IPUOutfeedQueue

        self.outfeed = IPUOutfeedQueue()
        self.fill = program(
            lambda x: (x + 1, self.outfeed.enqueue(x)), [tf.constant(0)]
        )
