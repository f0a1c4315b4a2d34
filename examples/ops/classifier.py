"""Classifies short sentences with operations of Graphcore's modules.

    tokens -> embedding_lookup -> dropout -> outlined block (layer_norm, gelu) -> softmax

The loss falls, and each loop prints the mean of its 20 iterations:

    loop 1: loss 0.79
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
ipu.utils.reset_ipu_seed(1)

VOCABULARY, WIDTH, ITERATIONS = 50, 16, 20
tokens = np.random.default_rng(1).integers(0, VOCABULARY, [160, 5], np.int32)
labels = (tokens < 25).sum(1) > 2  # whether most of the words are of the first half
dataset = tf.data.Dataset.from_tensor_slices((tokens, labels.astype(np.int32)))
dataset = dataset.repeat().batch(32, drop_remainder=True)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


@ipu.outlined_function
def block(x):
    x = ipu.normalization_ops.layer_norm(x, scope="norm", reuse=tf.AUTO_REUSE)
    kernel = tf.get_variable("kernel", [WIDTH, WIDTH])
    return x + ipu.nn_ops.gelu(
        ipu.math_ops.serialized_matmul(x, kernel, 4, "a_columns")
    )


def step(tokens, labels):
    with tf.variable_scope("model", use_resource=True, reuse=tf.AUTO_REUSE):
        table = tf.get_variable("table", [VOCABULARY, WIDTH])
        words = ipu.embedding_ops.embedding_lookup(table, tokens)
        x = ipu.rand_ops.dropout(tf.reduce_mean(words, axis=1), 0.1)
        x = block(block(x))
        logits = tf.matmul(x, tf.get_variable("classes", [WIDTH, 2]))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train = tf.train.GradientDescentOptimizer(0.03).minimize(loss)
    with tf.control_dependencies([train]):
        return outfeed.enqueue(tf.identity(loss))


with ipu.scopes.ipu_scope("/device:IPU:0"):
    loop = ipu.ipu_compiler.compile(
        lambda: ipu.loops.repeat(ITERATIONS, step, [], infeed)
    )
losses = outfeed.dequeue()

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    for number in range(5):
        session.run(loop)
        print(f"loop {number + 1}: loss {session.run(losses).mean():.2f}")
