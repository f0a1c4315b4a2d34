"""Training and validation alternate on the IPU, in TensorFlow 1.

    training set   -> infeed -> repeat(20, train)    -> outfeed, every loss
    validation set -> infeed -> repeat(4, validate)  -> outfeed, the last count only

Each of the two programs has queues of its own, and both use the same variables. The
learning rate is an input: another one compiles nothing again. A dict is an element, so the
bodies get its parts by name. Prints

    epoch 0: rate 0.100, 20 losses, mean ..., ... of 128 right
    epoch 1: rate 0.050, 20 losses, mean ..., ... of 128 right
    epoch 2: rate 0.025, 20 losses, mean ..., ... of 128 right
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import (
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
    utils,
)

tf.disable_v2_behavior()

STEPS = 20
BATCH = 32
VALIDATION_STEPS = 4


def make_dataset(seed):
    features = np.random.RandomState(seed).randn(128, 6).astype(np.float32)
    label = (features.sum(axis=1) > 0).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices({"features": features, "label": label})
    return dataset.batch(BATCH, drop_remainder=True).repeat()


def network(features):
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE):
        hidden = tf.layers.dense(features, 16, activation=tf.nn.relu, name="hidden")
        return tf.layers.dense(hidden, 2, name="logits")


training_feed = ipu_infeed_queue.IPUInfeedQueue(make_dataset(seed=1))
validation_feed = ipu_infeed_queue.IPUInfeedQueue(make_dataset(seed=2))
losses_out = ipu_outfeed_queue.IPUOutfeedQueue()
right_out = ipu_outfeed_queue.IPUOutfeedQueue(
    outfeed_mode=ipu_outfeed_queue.IPUOutfeedMode.LAST
)


def train(rate, features, label):
    loss = tf.losses.sparse_softmax_cross_entropy(label, network(features))
    step = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss)
    # The rate is carried from step to step; the two ops only have to run.
    return rate, losses_out.enqueue(loss), step


def validate(right, features, label):
    guess = tf.argmax(network(features), axis=-1, output_type=tf.int32)
    right += tf.reduce_sum(tf.cast(tf.equal(guess, label), tf.int32))
    return right, right_out.enqueue(right)


with tf.device("cpu"):
    rate = tf.placeholder(tf.float32, [])
with scopes.ipu_scope("/device:IPU:0"):
    training = ipu_compiler.compile(
        lambda rate: loops.repeat(STEPS, train, [rate], training_feed), [rate]
    )
    validation = ipu_compiler.compile(
        lambda: loops.repeat(VALIDATION_STEPS, validate, [0], validation_feed)
    )
dequeue_losses, dequeue_right = losses_out.dequeue(), right_out.dequeue()

options = utils.create_ipu_config()
options = utils.auto_select_ipus(options, 1)
utils.configure_ipu_system(options)
utils.move_variable_initialization_to_cpu()

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([training_feed.initializer, validation_feed.initializer])
    for epoch in range(3):
        value = 0.1 * 0.5**epoch
        session.run(training, feed_dict={rate: value})
        losses = session.run(dequeue_losses)
        session.run(validation)
        print(
            f"epoch {epoch}: rate {value:.3f}, {len(losses)} losses, "
            f"mean {losses.mean():.3f}, {session.run(dequeue_right)} of 128 right"
        )
    session.run([training_feed.deleter, validation_feed.deleter])
