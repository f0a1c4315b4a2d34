"""What compiles a TensorFlow 2 function again, counted, next to what does not.

A Python number is a part of the program, a `tf.constant` that is passed as an argument is
an input of it; a batch of another size is another program, a padded one is the same.
Prints

    Python numbers: 3 compiled
    tf.constant: 1 compiled
    three batch sizes: 3 compiled
    padded batches: 1 compiled
"""

import tensorflow as tf
from tensorflow.python import ipu

import ipufeed.executable

BATCH = 32
RATES = (0.1, 0.05, 0.025)
ROWS = (7, 13, 31)

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def scale(x, rate):
    return tf.reduce_mean(x * rate)


@tf.function(jit_compile=True)
def norm(x):
    return tf.sqrt(tf.reduce_sum(x * x))


def pad(x):
    """With zeros, which the norm does not see."""
    return tf.pad(x, [[0, BATCH - len(x)], [0, 0]])


def count(name, function, cases):
    ipufeed.executable.reset_stats()
    for case in cases:
        strategy.run(function, case)
    print(f"{name}: {ipufeed.executable.stats().compiles} compiled")


batches = [tf.ones([rows, 16]) for rows in ROWS]
full = tf.ones([BATCH, 16])
with strategy.scope():
    count("Python numbers", scale, [(full, rate) for rate in RATES])
    count("tf.constant", scale, [(full, tf.constant(rate)) for rate in RATES])
    count("three batch sizes", norm, [(batch,) for batch in batches])
    count("padded batches", norm, [(pad(batch),) for batch in batches])
