"""The global step is counted on the CPU, while training runs on the IPU.

On the IPU, each increment would be an executable of its own that has to be swapped in. So
the counter is made on the CPU, before anything else could make it. Prints

    global step 0 on CPU
    global step 10 on CPU, loss ...
    ...
    global step 50 on CPU, loss ...
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

STEPS = 10
CALLS = 5

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("cpu"):
    global_step = tf.train.get_or_create_global_step()
    count = tf.assign_add(global_step, STEPS)

x = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(32, 1)
dataset = tf.data.Dataset.from_tensors((x, 2 * x)).repeat()
infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)


def body(_, x, y):
    with tf.variable_scope("line", use_resource=True, reuse=tf.AUTO_REUSE):
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(slope * x - y))
    # No global_step here: minimize would count on the IPU.
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return loss, train


def net():
    return ipu.loops.repeat(STEPS, body, [tf.constant(0.0)], infeed_queue)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    train_loop = ipu.ipu_compiler.compile(net)

initialise = tf.global_variables_initializer()


def where(variable):
    return tf.DeviceSpec.from_string(variable.device).device_type


with tf.Session() as session:
    session.run([initialise, infeed_queue.initializer])
    print(f"global step {session.run(global_step)} on {where(global_step)}")
    for _ in range(CALLS):
        (loss,) = session.run(train_loop)
        step = session.run(count)
        print(f"global step {step} on {where(global_step)}, loss {loss:.3e}")
