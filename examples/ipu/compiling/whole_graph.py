"""A version 1 graph without ipu_compiler.compile: which of its runs are programs.

Initialisation is one program, a training step is one, an evaluation another; the same
run again is none. Prints

    initialise: 1 compiled
    train: 1 compiled
    train: 0 compiled
    evaluate: 1 compiled
    train: 0 compiled
    loss ... -> ...
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

import ipufeed.executable

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("cpu"):
    images = tf.placeholder(tf.float32, [16, 12])
    labels = tf.placeholder(tf.float32, [16, 2])

with ipu.scopes.ipu_scope("/device:IPU:0"):
    first = tf.get_variable("first", [12, 8])
    second = tf.get_variable("second", [8, 2])
    outputs = tf.matmul(tf.nn.relu(tf.matmul(images, first)), second)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    accuracy = tf.reduce_mean(
        tf.cast(tf.equal(tf.argmax(outputs, 1), tf.argmax(labels, 1)), tf.float32)
    )

numbers = np.random.default_rng(1)
feeds = {
    images: numbers.normal(size=[16, 12]),
    labels: np.eye(2)[numbers.integers(0, 2, 16)],
}


def run(what, fetches):
    before = ipufeed.executable.stats().compiles
    results = session.run(fetches, feeds)
    print(f"{what}: {ipufeed.executable.stats().compiles - before} compiled")
    return results


with tf.Session() as session:
    run("initialise", tf.global_variables_initializer())
    before, _ = run("train", [loss, train])
    run("train", [loss, train])
    run("evaluate", accuracy)
    after, _ = run("train", [loss, train])
    print(f"loss {before:.3f} -> {after:.3f}")
