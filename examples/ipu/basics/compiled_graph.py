"""The sum of basic_graph.py as one compiled program.

`ipu_compiler.compile` always gives a list of results, so this prints

    [array([3., 8.], dtype=float32)]
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()

config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("cpu"):
    a = tf.placeholder(np.float32, [2], name="a")
    b = tf.placeholder(np.float32, [2], name="b")
    c = tf.placeholder(np.float32, [2], name="c")


def add(a, b, c):
    return a + b + c


# Everything in `add` becomes a single executable. Outside of compile, TensorFlow would
# decide itself which ops to group.
with ipu.scopes.ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(add, [a, b, c])

with tf.Session() as session:
    feed = {a: [1.0, 1.0], b: [0.0, 2.0], c: [2.0, 5.0]}
    print(session.run(result, feed))
