"""Daemon threads that read or trace when the process ends leave before Python does.

A thread that is inside TensorFlow's eager call when the interpreter is taken down may
abort the process: its forced end goes through C++ frames that let nothing through.
"""

import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = pytest.mark.process

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
        timeout=DEADLOCK_S,
    )
    assert done.returncode == 0, done.stderr
    assert "has left: True" in done.stdout


TRACES = """
def poll():
    while True:
        tf.function(lambda: BODY)()

def body():
    x = tf.constant(0.0)
    polled.set()
    for _ in range(10**9):
        x = x + 1.0
    return x
"""


@pytest.mark.parametrize("body", ["body()", "polled.set()"])
def test_a_thread_that_traces_leaves_at_the_exit(body):
    """In the middle of a large function, and in one function after another."""
    before, _, after = PROGRAM.partition("def poll():")
    program = before + TRACES.replace("BODY", body) + after[after.index("\nthread =") :]
    done = children.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )
    assert done.returncode == 0, done.stderr
    assert "has left: True" in done.stdout
    assert "Traceback" not in done.stderr
