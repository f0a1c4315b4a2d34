"""Programs that are stopped while XLA compiles them."""

import os
import signal
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

# `long` is compiled for seconds. `stopped` calls something that compiles, and stops it
# there; "left 1" means that the call has ended before the compilation.
PROGRAM = """
import os, signal, sys, threading, time

import tensorflow as tf

import ipufeed as ipu
from ipufeed import _native

compilations = _native.entry().ipufeed_detached_work
strategy = ipu.IPUStrategy()
x = tf.reshape(tf.range(64.0), [8, 8])


def sums(x):
    for i in range({sorts}):
        x = tf.sort(i - x, axis=i % 2)
    return x


@tf.function(jit_compile=True)
def long(x):
    return sums(x)


@tf.function(jit_compile=True)
def small(x):
    return x + 1.0


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def stopped(stop, call):
    def wait_and_stop():
        while compilations() == 0:
            time.sleep(0.001)
        stop()

    thread = threading.Thread(target=wait_and_stop)
    thread.start()
    try:
        call()
    finally:
        print("left", compilations(), flush=True)
        thread.join()
"""

INTERRUPTED = """
try:
    stopped(interrupt, lambda: strategy.run(long, [x]))
except KeyboardInterrupt:
    print("interrupted")
print(strategy.run(small, [tf.constant(1.0)]).numpy(), compilations())
sys.exit(3)
"""

NOT_HANDLED = """
stopped(interrupt, lambda: strategy.run(long, [x]))
"""

# A session that is closed.
CLOSED = """
from ipufeed import ipu_compiler

v1 = tf.compat.v1
with tf.Graph().as_default():
    fed = v1.placeholder(tf.float32, [8, 8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        out = ipu_compiler.compile(sums, [fed])
    session = v1.Session()
    values = {fed: x.numpy()}
    try:
        stopped(session.close, lambda: session.run(out, values))
    except tf.errors.CancelledError as error:
        print("was stopped during XLA's compilation" in error.message)
"""

# The same again, with files of programs, whose locks other processes may wait for.
AGAIN = """
try:
    stopped(interrupt, lambda: strategy.run(long, [x]))
except KeyboardInterrupt:
    print("interrupted")
print((strategy.run(long, [x]).numpy() == sums(x).numpy()).all())
print(len(os.listdir(sys.argv[1])))
"""


def run(script, *arguments, sorts=100, **environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(sorts=sorts) + script, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**os.environ, **environment},
    )


def test_ctrl_c_does_not_wait_for_a_compilation():
    """Other programs run next to it, and the process ends without it, with its code."""
    done = run(INTERRUPTED)
    assert done.stdout == "left 1\ninterrupted\n2.0 1\n", done.stderr
    assert done.returncode == 3


def test_a_process_that_ctrl_c_ends_in_a_compilation_ends_by_the_signal():
    """With Python's traceback, as if there had been no compilation."""
    done = run(NOT_HANDLED)
    assert done.stdout == "left 1\n"
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.endswith("\nKeyboardInterrupt\n")


def test_a_session_is_closed_during_a_compilation():
    """Its run gets the reason."""
    done = run(CLOSED)
    assert done.stdout == "left 1\nTrue\n", done.stderr
    assert done.returncode == 0


def test_a_program_whose_compilation_was_left_is_compiled_again(tmp_path):
    """It computes what eager mode does, and its file is written once."""
    flags = f"--executable_cache_path={tmp_path}"
    done = run(AGAIN, str(tmp_path), sorts=40, TF_POPLAR_FLAGS=flags)
    assert done.stdout == "left 1\ninterrupted\nTrue\n1\n", done.stderr
    assert done.returncode == 0
