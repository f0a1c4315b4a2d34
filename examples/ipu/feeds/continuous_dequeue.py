"""Results are read while the program that makes them runs, in TensorFlow 1.

The program has a hundred steps and runs twice; a thread prints each step as it comes:

    step 0: 0.0
    ...
    step 199: 199.0
    200 steps, the first of them before the program had ended

The dataset sleeps a little for each element, as one that reads files would.
"""

import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

STEPS = 100
RUNS = 2

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def load(i):
    time.sleep(0.003)
    return np.float32(i)


dataset = tf.data.Dataset.range(STEPS * RUNS)
dataset = dataset.map(
    lambda i: tf.ensure_shape(tf.numpy_function(load, [i], tf.float32), [])
)

infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def body(x):
    return outfeed_queue.enqueue(x)


def net():
    return ipu.loops.repeat(STEPS, body, [], infeed_queue)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run_loop = ipu.ipu_compiler.compile(net)

dequeue_outfeed = outfeed_queue.dequeue()
run_ended = []  # when each run of the program ended
first_seen = []


def print_steps(session):
    step = 0
    while step < STEPS * RUNS:
        # All that came since the last time, which may be nothing.
        for value in session.run(dequeue_outfeed):
            first_seen.append(time.monotonic())
            print(f"step {step}: {value}", flush=True)
            step += 1
        time.sleep(0.001)


with tf.Session() as session:
    session.run(infeed_queue.initializer)
    reader = threading.Thread(target=print_steps, args=[session])
    reader.start()
    for _ in range(RUNS):
        session.run(run_loop)
        run_ended.append(time.monotonic())
    reader.join()

when = "before" if first_seen[0] < run_ended[0] else "after"
print(f"{len(first_seen)} steps, the first of them {when} the program had ended")
