"""Three vectors are added on the IPU, op by op, in a TensorFlow 1 session.

Prints the device's attach line on stderr, then the sum:

    [3. 8.]
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.scopes import ipu_scope

tf.disable_v2_behavior()

config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

# Placeholders are fed by the host, so they belong to the CPU.
with tf.device("cpu"):
    a = tf.placeholder(np.float32, [2], name="a")
    b = tf.placeholder(np.float32, [2], name="b")
    c = tf.placeholder(np.float32, [2], name="c")

with ipu_scope("/device:IPU:0"):
    total = a + b + c

with tf.Session() as session:
    feed = {a: [1.0, 1.0], b: [0.0, 2.0], c: [2.0, 5.0]}
    print(session.run(total, feed))
