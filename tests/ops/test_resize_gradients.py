"""The gradient of resizing to the nearest pixel, in programs of version 1 graphs."""

from helpers import run_python

# No strategy and no Keras: a process of its own, in which no other test has made them.
PROGRAM = """
import ipufeed as ipu
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
images = np.random.default_rng(3).normal(size=(2, 4, 5, 3)).astype(np.float32)


def net(x):
    large = tf.sin(v1.image.resize_nearest_neighbor(x, [8, 11]))
    return gradients(large, x)[0]


for gradients in (v1.gradients, tf.gradients):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, images.shape)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu.ipu_compiler.compile(net, [x])
        with tf.device("/device:CPU:0"):
            expected = net(x)
        found, expected = session.run([result, expected], {x: images})
    assert np.allclose(found, expected, atol=1e-5), (found, expected)
print("equal")
"""


def test_the_gradient_is_the_kernel_s_in_a_program_without_a_strategy():
    """By TensorFlow 1's function, and by TensorFlow 2's, which places it by its op."""
    done = run_python(PROGRAM)
    assert done.stdout == "equal\n", done.stderr
