"""Three sums on three IPUs, and the sum of the sums on a fourth.

The attach line on stderr names a multi-IPU device and its four members; then stands

    [array([ 4., 14.], dtype=float32)]
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()

# One device of four IPUs. [4] says the same; [1, 1, 1, 1] would be four devices.
config = IPUConfig()
config.auto_select_ipus = 4
config.configure_ipu_system()

with tf.device("cpu"):
    a = tf.placeholder(np.float32, [2], name="a")
    b = tf.placeholder(np.float32, [2], name="b")
    c = tf.placeholder(np.float32, [2], name="c")


def sharded(a, b, c):
    with ipu.scopes.ipu_shard(0):
        ab = a + b
    with ipu.scopes.ipu_shard(1):
        ac = a + c
    with ipu.scopes.ipu_shard(2):
        bc = b + c
    with ipu.scopes.ipu_shard(3):
        return ab + ac + bc - a - b


with ipu.scopes.ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(sharded, [a, b, c])

with tf.Session() as session:
    feed = {a: [1.0, 1.0], b: [0.0, 1.0], c: [1.5, 6.0]}
    print(session.run(result, feed))
