"""Programs in files, for tests of the embedded runtime."""

import numpy as np
import tensorflow as tf

from ipufeed.applications.compiling import experimental_application_compile_op
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import loops
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

X = tf.TensorSpec([4], tf.float32)


def configure(ipus=1):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def queues(*specs):
    """An infeed of elements of these specs, and an outfeed."""
    element = tuple(tf.zeros(spec.shape, spec.dtype) for spec in specs)
    dataset = tf.data.Dataset.from_tensors(element).repeat()
    return IPUInfeedQueue(dataset), IPUOutfeedQueue()


def scaled(weights, iterations=3):
    """A function that gives the elements times the weights, and a count plus 1."""
    infeed, outfeed = queues(X, tf.TensorSpec([], tf.int32))

    def body(x, k):
        return outfeed.enqueue((x * weights, k + 1))

    return lambda: loops.repeat(iterations, body, [], infeed)


def compiled(path, **options):
    configure()
    weights = tf.Variable([0.0, 1.0, 2.0, 3.0], name="weights")
    experimental_application_compile_op(scaled(weights), output_path=path, **options)
    return path


def ones(factor=1.0):
    return np.full(4, factor, np.float32)
