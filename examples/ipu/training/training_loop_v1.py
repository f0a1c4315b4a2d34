"""A loop of ten steps on the IPU, fed by a dataset, in TensorFlow 1.

    dataset -> infeed queue -> repeat(10, body) -> outfeed queue -> dict of arrays

The body enqueues a dict, and the dict comes out with the ten steps as a new first axis.
Prints, for the sum d1 and the difference d2 of two vectors of ones:

    d1 (10, 800) 2.0
    d2 (10, 800) 0.0
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import (
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
)
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()

config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

dataset = tf.data.Dataset.from_tensors(tf.constant(1.0, shape=[800]))
dataset = dataset.map(lambda x: (x, x))
dataset = dataset.repeat()

infeed_queue = ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed_queue = ipu_outfeed_queue.IPUOutfeedQueue()


# An element of the dataset is a pair, so the body takes two arguments. What it returns
# is the enqueue alone: an op that is not returned would not run.
def body(x1, x2):
    return outfeed_queue.enqueue({"d1": x1 + x2, "d2": x1 - x2})


def net():
    return loops.repeat(10, body, [], infeed_queue)


with scopes.ipu_scope("/device:IPU:0"):
    run_loop = ipu_compiler.compile(net, inputs=[])

# An op of its own: a session runs it whenever the results are wanted.
dequeue_outfeed = outfeed_queue.dequeue()

with tf.Session() as session:
    session.run(infeed_queue.initializer)
    session.run(run_loop)
    results = session.run(dequeue_outfeed)
    session.run(infeed_queue.deleter)

for name, values in sorted(results.items()):
    assert np.all(values == values[0, 0])
    print(name, values.shape, values[0, 0])
