"""Training in chunks: a hundred calls of ten steps, and the mean loss after each.

Fewer steps for a call give news more often; more of them leave the host alone for longer.
The queue goes on where the last call stopped, so no element is lost in between. Prints

    chunk 0: loss ..., 10 steps
    ...
    chunk 99: loss ..., 10 steps
"""

import tensorflow as tf
from tensorflow.python import ipu

CHUNKS = 100
STEPS = 10

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


@tf.function(experimental_compile=True)
def train(iterator):
    for _ in tf.range(STEPS):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights - y))
        weights.assign_sub(0.005 * tape.gradient(loss, weights))
        outfeed_queue.enqueue(loss)


def make_dataset():
    x = tf.random.stateless_normal([32, 4], seed=[1, 2])
    y = x @ tf.constant([[1.0], [-2.0], [3.0], [0.5]])
    return tf.data.Dataset.from_tensors((x, y)).repeat()


with strategy.scope():
    iterator = iter(make_dataset())
    for chunk in range(CHUNKS):
        strategy.run(train, args=[iterator])
        # The call has returned, so all of its ten losses are there.
        losses = [loss.numpy() for loss in outfeed_queue]
        mean = sum(losses) / len(losses)
        print(f"chunk {chunk}: loss {mean:.4e}, {len(losses)} steps")
