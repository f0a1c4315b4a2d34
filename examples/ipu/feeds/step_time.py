"""A device that computes elsewhere: would this dataset keep it busy?

`step` is ours, and not in the original: it takes as long as the accelerator at hand would
compute, and no CPU. Its times are when each step was free to begin, began and ended. The
dataset here takes twice as long for an element as the device. What it has read ahead is
used up after some steps; the second half of them counts. Prints about

    200 steps of 4 ms
    utilisation 49%, starved 51%
"""

import time

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from ipufeed.device import step, to_times

STEPS, STEP_S, SLOW_S = 200, 0.004, 0.008

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def read(number):
    time.sleep(SLOW_S)
    return number


def slow(number):
    image = tf.numpy_function(read, [tf.cast(number, tf.float32)], tf.float32)
    return tf.fill([32, 28, 28], tf.reshape(image, []))


dataset = tf.data.Dataset.range(STEPS).map(slow)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def train():
    def body(images):
        return outfeed.enqueue(step(STEP_S))

    return ipu.loops.repeat(STEPS, body, [], infeed)


_ = infeed.initializer
with strategy.scope():
    strategy.run(train)
times = to_times(outfeed.dequeue())
half = STEPS // 2
total = int(times.end[-1] - times.end[half - 1])
computed = half * STEP_S * 1e9
starved = int(np.sum(times.start[half:] - times.free[half:]))
print(f"{len(times.end)} steps of {STEP_S * 1e3:.0f} ms")
print(f"utilisation {computed / total:.0%}, starved {starved / total:.0%}")
