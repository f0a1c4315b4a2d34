"""A loop on the IPU is fed by a loader of another framework.

`ipufeed.sources.from_loader` takes what can be iterated: a DataLoader of PyTorch, Grain or
SPDL, or a class like the one below, which needs none of them. Prints the types of an
element, where NumPy's int64 has become int32, and what a network learns from it:

    picture float32 (32, 16), label int32 (32,)
    loss 0.69 to 0.01
"""

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from ipufeed import sources

STEPS = 200
BATCH = 32

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


class Stripes:
    """Batches of pictures of 4 x 4: horizontal stripes are 1, vertical ones 0."""

    def __iter__(self):
        random = np.random.default_rng(1)
        for _ in range(100):
            labels = random.integers(0, 2, BATCH)  # int64
            stripes = np.tile([1.0, -1.0], 8).reshape(4, 4)
            pictures = np.where(labels[:, None, None] == 1, stripes.T, stripes)
            noise = random.normal(0.0, 0.3, pictures.shape)
            yield {
                "picture": np.float32(pictures + noise).reshape(BATCH, 16),
                "label": labels,
            }


dataset = sources.from_loader(Stripes())
print(
    ", ".join(
        f"{name} {spec.dtype.name} {spec.shape}"
        for name, spec in sorted(dataset.element_spec.items(), reverse=True)
    )
)

losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    weights = tf.Variable(tf.zeros([16]))

    @tf.function(jit_compile=True)
    def train(iterator):
        for _ in tf.range(STEPS):
            batch = next(iterator)
            with tf.GradientTape() as tape:
                logits = tf.linalg.matvec(batch["picture"], weights)
                labels = tf.cast(batch["label"], tf.float32)
                each = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(each)
            (gradient,) = tape.gradient(loss, [weights])
            weights.assign_sub(0.1 * gradient)
            losses.enqueue(loss)

    # Two passes of 100 batches: the loader is iterated again for the second one.
    strategy.run(train, args=[iter(dataset.repeat(2))])

found = losses.dequeue().numpy()
print(f"loss {found[0]:.2f} to {found[-1]:.2f}")
