"""The global step is counted on the CPU, and on the IPU: what either costs.

On the IPU each increment is a program of its own, which has to be swapped in, and the
training swapped in again behind it. On the CPU the training stays where it is. Prints

    counted on CPU: global step 20, loss ..., 0 switches
    ...
    counted on CPU: global step 60, loss ..., 0 switches
    counted on IPU: global step 20, loss ..., 2 switches
    ...
    counted on IPU: global step 60, loss ..., 2 switches
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

import ipufeed.executable

tf.disable_v2_behavior()

STEPS = 10
CALLS = 5

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def make_infeed():
    x = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(32, 1)
    dataset = tf.data.Dataset.from_tensors((x, 2 * x)).repeat()
    return ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)


def body(_, x, y):
    with tf.variable_scope("line", use_resource=True, reuse=tf.AUTO_REUSE):
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(slope * x - y))
    # No global_step here: minimize would count on the IPU, even with a counter made
    # elsewhere.
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return loss, train


def where(variable):
    return tf.DeviceSpec.from_string(variable.device).device_type


def train(device):
    """Trains with the counter on a device."""
    infeed_queue = make_infeed()
    # Before anything else could make it, and with it decide where it is.
    with tf.variable_scope("", use_resource=True), tf.device(device):
        global_step = tf.train.get_or_create_global_step()
        count = global_step.assign_add(STEPS, read_value=False)

    def net():
        return ipu.loops.repeat(STEPS, body, [tf.constant(0.0)], infeed_queue)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        train_loop = ipu.ipu_compiler.compile(net)
    initialise = tf.global_variables_initializer()

    with tf.Session() as session:
        session.run([initialise, infeed_queue.initializer])
        # The first call loads the program in any case, wherever the counter is.
        session.run(count)
        session.run(train_loop)
        for _ in range(CALLS):
            ipufeed.executable.reset_stats()
            session.run(count)
            (loss,) = session.run(train_loop)
            switches = ipufeed.executable.stats().switches
            print(
                f"counted on {where(global_step)}: "
                f"global step {session.run(global_step)}, loss {loss:.3e}, "
                f"{switches} switches"
            )


for device in ("cpu", "/device:IPU:0"):
    with tf.Graph().as_default():
        train(device)
