"""Programs of several replicas."""

import tensorflow as tf

v1 = tf.compat.v1


def numbers(count=1000):
    """0.0, 1.0, and so on."""
    return tf.data.Dataset.range(count).map(lambda n: tf.cast(n, tf.float32))
