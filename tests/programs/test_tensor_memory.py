"""What is promised of the memory of an IPU's tensors where malloc allocates it.

With oneDNN, TensorFlow's default on x86-64, its own allocator keeps the blocks.
"""

import pytest
from helpers import run_python

pytestmark = [pytest.mark.process, pytest.mark.long]

SETUP = """
import resource
import numpy as np, ipufeed as ipu, tensorflow as tf
config = ipu.IPUConfig(); config.auto_select_ipus = 1; config.configure_ipu_system()

def size():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
"""


def run_without_onednn(code):
    """A new interpreter: TensorFlow chooses its allocator at its start.

    With one arena of malloc: each thread's own would reserve addresses under the limit.
    """
    environment = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_ARENA_MAX": "1"}
    done = run_python(SETUP + code, forked=False, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_uses_the_memory_of_an_earlier_one():
    """And what a caller still has does not change."""
    out = run_without_onednn("""
elements = 16 << 20  # 64 MiB: malloc itself keeps no such blocks
strategy = ipu.IPUStrategy()
outfeed = ipu.IPUOutfeedQueue()
with strategy.scope():
    variable = tf.Variable(tf.zeros([elements]))

@tf.function(jit_compile=True)
def add():
    variable.assign_add(tf.ones([elements]))
    outfeed.enqueue(variable[0])

strategy.run(add)
strategy.run(add)
before = size()
for number in range(5):
    strategy.run(add)
print((size() - before) >> 26)
kept = variable.numpy()
strategy.run(add)
with tf.device("/device:IPU:0"):
    one = tf.fill([elements], 7.0)
    many = size()
    del one
    print((many - size()) >> 26)
    one = tf.fill([elements], 8.0)
    print((size() - many) >> 26)
print(variable.numpy()[[0, -1]].tolist(), np.unique(kept).tolist())
""")

    assert out.splitlines() == ["0", "0", "0", "[8.0, 8.0] [7.0]"]


def test_memory_that_is_kept_gives_way_where_there_is_none():
    """The limit leaves no room for a tensor of another size next to what is kept."""
    out = run_without_onednn("""
with tf.device("/device:IPU:0"):
    few = tf.ones([1 << 20]) + 1.0
    limit = size() + (700 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    many = [tf.ones([25 << 18]) + float(number) for number in range(20)]  # 500 MiB
    del many
    large = tf.ones([100 << 20])  # 400 MiB
    print(float(large[-1]))
""")

    assert out.split() == ["1.0"]
