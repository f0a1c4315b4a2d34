"""The loop of training_loop_v1.py in TensorFlow 2: a strategy and an iterator.

`iter(dataset)` in the strategy's scope is an infeed queue, and next() takes an element
from it on the device. The counter of the steps is the function's result. Prints

    steps 10
    d1 (10, 800) 2.0
    d2 (10, 800) 0.0
"""

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

dataset = tf.data.Dataset.from_tensors(tf.constant(1.0, shape=[800]))
dataset = dataset.map(lambda x: (x, x))
dataset = dataset.repeat()

outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


# Compiled as a whole: the loop runs on the device, and Python sees one call.
@tf.function(jit_compile=True)
def run_steps(iterator, steps):
    counter = 0
    for _ in tf.range(steps):
        x1, x2 = next(iterator)
        outfeed_queue.enqueue({"d1": x1 + x2, "d2": x1 - x2})
        counter += 1
    return counter


strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    counter = strategy.run(run_steps, args=[iter(dataset), 10])

print("steps", counter.numpy())
for name, values in sorted(outfeed_queue.dequeue().items()):
    assert np.all(values == values[0, 0])
    print(name, values.shape, values[0, 0].numpy())
