"""The pipeline of the pictures in "Read the report": its costs are known, since it sleeps.

a record           1 ms; from the 1200th on 3 ms, as if the disk's cache were used up
every 80th record  20 ms more, as for opening the next file
an element         a batch of 4 records
"""

import itertools
import time

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing


def records():
    for number in itertools.count():
        if number % 80 == 0:
            time.sleep(0.02)
        time.sleep(0.001 if number < 1200 else 0.003)
        yield np.zeros([64, 64, 3], np.uint8)


def make_dataset():
    spec = tf.TensorSpec([64, 64, 3], tf.uint8)
    dataset = tf.data.Dataset.from_generator(records, output_signature=spec)
    return dataset.batch(4, drop_remainder=True).prefetch(2)


def make_from_memory():
    """Costs nothing: the consumer, which copies each element's 16 MB, is slower."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 1024, 1024], tf.float32))
    return dataset.repeat()


def make_even(milliseconds: float):
    """Returns a dataset of one element for each sleep."""
    element = tf.data.Dataset.from_tensors(tf.zeros([64, 64, 3], tf.uint8))
    return element.repeat().apply(testing.sleep(round(milliseconds * 1e3)))
