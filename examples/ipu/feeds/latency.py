"""How old is a result when the host has it?

The dataset stamps each element with the time, the program hands the stamp on to the
outfeed, and a thread subtracts it from the time at which it comes out. Prints

    500 results, latency mean ... us, p99 ... us

The source gives an element in two milliseconds, less than the device could take. A faster
one would keep the queues full, and this would be the time that elements wait in them.
"""

import threading
import time

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

WARM_UP = 100
STEPS = 500
INTERVAL_S = 0.002

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

START = time.monotonic()


def milliseconds():
    """Time since the start.

    Feeds carry neither float64 nor int64. Counted from the start, and not from 1970,
    float32 still distinguishes microseconds (for the first sixteen seconds).
    """
    return np.float32((time.monotonic() - START) * 1e3)


def stamp(_):
    time.sleep(INTERVAL_S)
    return milliseconds()


dataset = tf.data.Dataset.range(WARM_UP + STEPS).map(
    lambda i: tf.ensure_shape(tf.numpy_function(stamp, [i], tf.float32), [])
)
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()
latencies = []


@tf.function(jit_compile=True)
def run_steps(iterator):
    for _ in tf.range(WARM_UP + STEPS):
        outfeed_queue.enqueue(next(iterator))


def measure():
    while len(latencies) < WARM_UP + STEPS:
        stamps = outfeed_queue.dequeue()
        now = milliseconds()
        if len(stamps):
            latencies.extend(now - stamps.numpy())
        time.sleep(1e-4)  # leave the CPU to the others


reader = threading.Thread(target=measure)
with strategy.scope():
    reader.start()
    strategy.run(run_steps, args=[iter(dataset)])
    reader.join()

# The first elements were read ahead while the program was still being compiled.
microseconds = 1e3 * np.array(latencies[WARM_UP:])
print(
    f"{len(microseconds)} results, latency mean {microseconds.mean():.0f} us, "
    f"p99 {np.percentile(microseconds, 99):.0f} us"
)
