"""A daemon thread that polls an outfeed when the process ends leaves before Python does.

A thread that is inside TensorFlow's eager call when the interpreter is taken down may
abort the process: its forced end goes through C++ frames that let nothing through.
"""

import sys

import children
import pytest

pytestmark = pytest.mark.process

LIMIT_S = 120.0  # only a hang gets there
PROGRAM = """
import atexit, threading

def report():  # the last of the exit functions
    thread.join(10.0)
    print("has left:", not thread.is_alive(), flush=True)

atexit.register(report)
import tensorflow as tf
import ipufeed as ipu

queue = ipu.IPUOutfeedQueue()

@tf.function(jit_compile=True)
def program(n):
    return ipu.loops.repeat(n, lambda x: (x + 1.0, queue.enqueue(x)), [0.0])

strategy = ipu.IPUStrategy()
with strategy.scope():
    strategy.run(program, [3])
polled = threading.Event()

def poll():
    while True:
        CALL
        polled.set()

thread = threading.Thread(target=poll, daemon=True)
thread.start()
polled.wait(60.0)
"""


@pytest.mark.parametrize("call", ["queue.dequeue()", "list(queue)"])
def test_a_thread_that_polls_leaves_at_the_exit(call):
    done = children.run(
        [sys.executable, "-c", PROGRAM.replace("CALL", call)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "has left: True" in done.stdout
