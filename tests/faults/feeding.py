"""A program with one infeed and one outfeed, as the tests of faults want it."""

import contextlib
import threading
import time

import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed import _native
from ipufeed.device.program import loops
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

IPU = "/device:IPU:0"


def numbers(n=1_000_000):
    """0.0, 1.0, ..."""
    return tf.data.Dataset.range(n).map(lambda i: tf.cast(i, tf.float32))


def silent(release):
    """A dataset that gives nothing until the event is set, then 0.0, 1.0, ..."""

    def wait(value):
        release.wait(DEADLOCK_S)
        return value

    def give(i):
        value = tf.numpy_function(wait, [tf.cast(i, tf.float32)], tf.float32)
        value.set_shape([])
        return value

    return tf.data.Dataset.range(1_000_000).map(give)


class Feeding:
    """infeed -> loop on IPU 0 -> outfeed."""

    def __init__(self, dataset, jit=True, **outfeed):
        self.infeed = IPUInfeedQueue(dataset, prefetch_depth=4)
        self.outfeed = IPUOutfeedQueue(**outfeed)
        _ = self.infeed.initializer

        @tf.function(jit_compile=jit)
        def program(n):
            loops.repeat(n, self.body, infeed_queue=self.infeed)

        self.program = program

    def body(self, *element):
        return self.outfeed.enqueue(element[0] if len(element) == 1 else element)

    def run(self, n):
        with tf.device(IPU):
            self.program(tf.constant(n))

    def results(self):
        return self.outfeed.dequeue().numpy().tolist()

    def close(self):
        _ = self.infeed.deleter
        _ = self.outfeed.deleter

    def waits(self):
        """Until the program waits for one of its queues."""
        before = self._device_waits()
        return until(lambda: self._device_waits() > before)

    def _device_waits(self):
        return self.infeed.stats().device_parks + self.outfeed.stats().device_parks


class InThread:
    """A call on a thread of its own; its error is kept."""

    def __init__(self, function, *arguments):
        self.error = None
        self.thread = threading.Thread(target=self._call, args=[function, arguments])
        self.thread.start()

    def _call(self, function, arguments):
        try:
            function(*arguments)
        except BaseException as error:
            self.error = error

    def end(self):
        self.thread.join(DEADLOCK_S)
        assert not self.thread.is_alive(), "it hangs"
        return self.error


def until(condition):
    """Waits until it holds."""
    end = time.monotonic() + DEADLOCK_S
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def stop_programs():
    """As Ctrl-C does."""
    return _native.entry().ipufeed_stop_programs(b"stopped by a test")


@contextlib.contextmanager
def feeding(dataset, jit=True, **outfeed):
    """A Feeding that is closed at the end."""
    made = Feeding(dataset, jit, **outfeed)
    try:
        yield made
    finally:
        stop_programs()
        until(lambda: _native.entry().ipufeed_wait_idle(0, 10_000_000))
        made.close()
