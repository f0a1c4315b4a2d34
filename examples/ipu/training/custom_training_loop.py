"""A training loop of one's own, compiled as a whole, with a thread that reads the loss.

A line is fitted to points of y = 3 x - 1 with a GradientTape, a hundred steps in one
call. A thread prints each step's loss as the device goes on. Prints

    step 0: loss ...
    ...
    step 99: loss ...
    slope 3.00, offset -1.00
"""

import threading

import tensorflow as tf
from tensorflow.python import ipu

STEPS = 100

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def make_dataset():
    x = tf.random.stateless_uniform([64, 1], seed=[1, 2], minval=-1, maxval=1)
    dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x - 1))
    # The device has to know the shape of a batch, so a smaller last one is dropped.
    return dataset.batch(16, drop_remainder=True).repeat()


outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    slope = tf.Variable(0.0)
    offset = tf.Variable(0.0)
    optimizer = tf.keras.optimizers.SGD(0.5)
    # Keras makes its variables at the first step; in a compiled loop that is too late.
    optimizer.build([slope, offset])


@tf.function(jit_compile=True)
def train(iterator, steps):
    for _ in tf.range(steps):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(slope * x + offset - y))
        gradients = tape.gradient(loss, [slope, offset])
        optimizer.apply_gradients(zip(gradients, [slope, offset], strict=True))
        outfeed_queue.enqueue(loss)


def print_losses():
    step = 0
    while step < STEPS:
        # The for loop ends when nothing more is there now, and can be entered again.
        for loss in outfeed_queue:
            print(f"step {step}: loss {loss.numpy():.3e}", flush=True)
            step += 1


with strategy.scope():
    reader = threading.Thread(target=print_losses)
    reader.start()
    strategy.run(train, args=[iter(make_dataset()), STEPS])
    reader.join()

print(f"slope {slope.numpy():.2f}, offset {offset.numpy():.2f}")
