"""Programs that enqueue, at the pace of a test."""

import threading

import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed.device.program import loops
from ipufeed.queues import (
    IPUInfeedQueue,
)


def counting(outfeed, what=lambda i: i):
    """A program that enqueues `what` of 0 to n - 1."""

    @tf.function(jit_compile=True)
    def program(n):
        loops.repeat(n, lambda i: (i + 1.0, outfeed.enqueue(what(i))), [0.0])

    def run(n):
        with tf.device("/device:IPU:0"):
            program(tf.constant(n))

    return run


class Tap:
    """A dataset that gives an element whenever the test says so."""

    def __init__(self):
        self.turns = threading.Semaphore(0)

        def generate():
            for number in range(10**6):
                if not self.turns.acquire(timeout=DEADLOCK_S):
                    return
                yield float(number)

        self.infeed = IPUInfeedQueue(
            tf.data.Dataset.from_generator(
                generate, output_signature=tf.TensorSpec([], tf.float32)
            )
        )
        _ = self.infeed.initializer


def started(tap, outfeed, n):
    """A thread that runs a program which passes on n elements of the tap."""

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(n, outfeed.enqueue, infeed_queue=tap.infeed)

    def run():
        with tf.device("/device:IPU:0"):
            program()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
