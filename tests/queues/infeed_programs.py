"""Programs that read an infeed."""

import tensorflow as tf

from ipufeed.device.program import loops


def numbers():
    """0.0 to 999.0."""
    return tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32))


floats = numbers()


def reading(infeed, outfeed, jit=True):
    """A program that gives what it takes, n times."""

    @tf.function(jit_compile=jit)
    def program(n):
        loops.repeat(n, outfeed.enqueue, infeed_queue=infeed)

    return lambda n: run_on_ipu(program, tf.constant(n))


def run_on_ipu(program, *args):
    with tf.device("/device:IPU:0"):
        return program(*args)
