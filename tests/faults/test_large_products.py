"""A program whose compilation ends the process in TensorFlow's own XLA."""

import subprocess
import sys

import pytest
from helpers import DEADLOCK_S

pytestmark = pytest.mark.process

PROGRAM = """
import numpy as np
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy


@tf.function(jit_compile=True)
def program():
    x = tf.random.stateless_uniform([220, 220], [1, 2])
    y = x @ x
    return x, tf.reduce_sum(y @ y)


x, total = IPUStrategy().run(program)
square = x.numpy().astype(np.float64) @ x.numpy()
print(abs(float(total) / (square @ square).sum() - 1.0) < 1e-5)
"""


@pytest.mark.long
def test_the_sum_over_products_of_large_matrices_is_compiled():
    """Without the option of cc/xla/compile/xla_compilation.cc: SIGSEGV."""
    done = subprocess.run(
        [sys.executable, "-c", "import ipufeed\n" + PROGRAM],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
