"""One model on 1, 2 and 4 IPUs: the same weights from the same samples, in TensorFlow 1.

    dataset -> infeed queue -> replica 0: batch 0, 4, ...     gradients: the mean over all,
                               replica 1: batch 1, 5, ...     so that weights stay the same
                               ...

A device of R IPUs runs R copies of the program. Each takes a batch of 16 / R samples in a
step, and accumulates the gradients of two of them before the copies exchange theirs.
The losses are [steps, R]: the outfeed queue has an axis for the copies. Prints a line for
each R: the shape, the mean loss of the first and the last step, and how far the weights are
from those of R = 1.

    1 replicas: losses (40,), 0.3292 to 0.0323
    2 replicas: losses (40, 2), 0.3292 to 0.0323, weights differ by less than 1e-5
    4 replicas: losses (40, 4), 0.3292 to 0.0323, weights differ by less than 1e-5
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.optimizers import (
    CrossReplicaGradientAccumulationOptimizerV2,
)

tf.disable_v2_behavior()

SAMPLES = 16  # of a step on all replicas together
MINI_BATCHES = 2
STEPS = 40

random = np.random.default_rng(5)
inputs = random.normal(size=(640, 8)).astype(np.float32)
targets = (inputs @ random.normal(size=(8, 1))).astype(np.float32)


def train(replicas):
    """Losses of all steps, and the weights afterwards."""
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()

    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat()
    dataset = dataset.batch(SAMPLES // replicas, drop_remainder=True)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x, y):
        weights = tf.get_variable("weights", [8, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(x @ weights - y)) / 10
        optimizer = CrossReplicaGradientAccumulationOptimizerV2(
            tf.train.MomentumOptimizer(0.2, 0.5), MINI_BATCHES, reduction_method="mean"
        )
        return outfeed.enqueue(loss), optimizer.minimize(loss)

    def net():
        return ipu.loops.repeat(STEPS, body, [], infeed)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(net)
    dequeue = outfeed.dequeue()
    with tf.variable_scope("", reuse=True, use_resource=True):
        weights = tf.get_variable("weights", [8, 1])

    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(program)
        return session.run([dequeue, weights])


expected = None
for replicas in (1, 2, 4):
    with tf.Graph().as_default():
        losses, weights = train(replicas)
    line = f"{replicas} replicas: losses {losses.shape}"
    line += f", {losses[0].mean():.4f} to {losses[-1].mean():.4f}"
    if expected is not None:
        bound = 1e-5 * np.abs(expected).max()
        close = np.abs(weights - expected).max() < bound
        line += f", weights differ by {'less' if close else 'MORE'} than 1e-5"
    else:
        expected = weights
    print(line)
