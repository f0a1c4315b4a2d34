"""A Keras model and optimizer in a loop on the IPU that two datasets feed.

    points -> infeed --.
                        repeat(25, step) -> outfeed -> losses
    noise  -> infeed --'

The loop takes its elements from one queue by itself; the body dequeues the other one.
Prints, with a loss that falls:

    25 losses, mean ...
    ...
    100 steps
"""

import tensorflow as tf
from tensorflow.python import ipu

CALLS = 4
STEPS = 25
BATCH = 16

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def make_points():
    x = tf.random.stateless_normal([128, 8], seed=[1, 2])
    dataset = tf.data.Dataset.from_tensor_slices(
        (x, tf.reduce_sum(x, 1, keepdims=True))
    )
    return dataset.batch(BATCH, drop_remainder=True).repeat()


def make_noise():
    seeds = tf.data.Dataset.range(1_000_000)
    return seeds.map(
        lambda seed: {
            "noise": 0.01 * tf.random.stateless_normal([BATCH, 8], [seed, seed])
        }
    )


class Network(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(32, activation="tanh")
        self.normalize = tf.keras.layers.BatchNormalization()
        self.out = tf.keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.out(self.normalize(self.hidden(x), training=training))


points = ipu.ipu_infeed_queue.IPUInfeedQueue(make_points())
noise = ipu.ipu_infeed_queue.IPUInfeedQueue(make_noise(), prefetch_depth=5)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    network = Network()
    network(tf.zeros([BATCH, 8]))  # makes the variables, outside of the loop
    optimizer = tf.keras.optimizers.Adam(0.02)
    optimizer.build(network.trainable_variables)


@tf.function(jit_compile=True)
def train(steps):
    def step(x, y):
        x += noise._dequeue()["noise"]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(x, training=True) - y))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, network.trainable_variables, strict=True)
        )
        outfeed.enqueue({"loss": loss})

    return ipu.loops.repeat(steps, step, infeed_queue=points)


points.initializer  # noqa: B018 - in eager mode to read it is to run it
noise.initializer  # noqa: B018

with strategy.scope():
    for _ in range(CALLS):
        strategy.run(train, args=[tf.constant(STEPS)])
        losses = outfeed.dequeue()["loss"]
        print(f"{len(losses)} losses, mean {tf.reduce_mean(losses).numpy():.3f}")

points.deleter  # noqa: B018
noise.deleter  # noqa: B018
print(f"{optimizer.iterations.numpy()} steps")
