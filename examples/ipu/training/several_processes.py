"""One model in two processes of two IPUs each: the same weights as on four of one process.

    process 0: dataset.shard(2, 0) -> infeed queue -> replica 0, 1 --+
                                                                     +-- mean gradients
    process 1: dataset.shard(2, 1) -> infeed queue -> replica 2, 3 --+

Started without TF_CONFIG, the program starts itself twice, with the addresses of both
processes in it, as a launcher of a cluster's processes does. Each takes every second
batch; gradients go over TensorFlow's collectives. Prints what each process says and how far
the weights are from those that one process finds with four replicas:

    process 0 of 2: losses (40, 2), 0.4197 to 0.0009
    process 1 of 2: losses (40, 2), 0.2386 to 0.0009
    one process: losses (40, 4), 0.3292 to 0.0009
    weights differ by less than 1e-5
"""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.optimizers import CrossReplicaOptimizer

tf.disable_v2_behavior()

BATCH = 4
STEPS = 40
PROCESSES = 2

random = np.random.default_rng(5)
inputs = random.normal(size=(640, 8)).astype(np.float32)
targets = (inputs @ random.normal(size=(8, 1))).astype(np.float32)


def train(ipus, processes, index):
    """Losses of all steps, and the weights afterwards."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.experimental.multi_replica_distribution.process_count = processes
    config.experimental.multi_replica_distribution.process_index = index
    config.configure_ipu_system()

    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat()
    dataset = dataset.batch(BATCH, drop_remainder=True).shard(processes, index)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x, y):
        weights = tf.get_variable("weights", [8, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(x @ weights - y)) / 10
        optimizer = CrossReplicaOptimizer(tf.train.MomentumOptimizer(0.2, 0.5))
        return outfeed.enqueue(loss), optimizer.minimize(loss)

    def net():
        return ipu.loops.repeat(STEPS, body, [], infeed)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(net)
    dequeue = outfeed.dequeue()
    with tf.variable_scope("", reuse=True, use_resource=True):
        weights = tf.get_variable("weights", [8, 1])

    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(program)
        return session.run([dequeue, weights])


def describe(losses):
    """Their shape, and the means of the first and the last step."""
    return f"losses {losses.shape}, {losses[0].mean():.4f} to {losses[-1].mean():.4f}"


def one_of_several(index):
    """This process's part."""
    losses, weights = train(ipus=2, processes=PROCESSES, index=index)
    output = f"process {index} of {PROCESSES}: {describe(losses)}"
    print(json.dumps({"output": output, "weights": weights.tolist()}))


def free_addresses():
    """Addresses without a listener."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(PROCESSES)]
    found = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def start(index, addresses):
    """A process of this program."""
    task = {"type": "worker", "index": index}
    cluster = json.dumps({"cluster": {"worker": addresses}, "task": task})
    return subprocess.Popen(
        [sys.executable, "-m", "ipufeed.run", __file__],
        env={**os.environ, "TF_CONFIG": cluster},
        stdout=subprocess.PIPE,
        text=True,
    )


def all_of_them():
    """Starts the others, and compares."""
    addresses = free_addresses()
    started = [start(index, addresses) for index in range(PROCESSES)]
    results = [json.loads(each.communicate()[0]) for each in started]
    for result in results:
        print(result["output"])
    losses, expected = train(ipus=2 * PROCESSES, processes=1, index=0)
    print(f"one process: {describe(losses)}")
    furthest = max(np.abs(each["weights"] - expected).max() for each in results)
    close = furthest < 1e-5 * np.abs(expected).max()
    print(f"weights differ by {'less' if close else 'MORE'} than 1e-5")


if "TF_CONFIG" in os.environ:
    one_of_several(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
else:
    all_of_them()
