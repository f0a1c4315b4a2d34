"""What the clock inside a program promises: the host's time, where it was written."""

import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

from ipufeed.device.program import executor as params
from ipufeed.device.program import loops
from ipufeed.device.program.clock import read_clock, to_ns
from ipufeed.queues import IPUOutfeedQueue


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
def test_stamps_ascend_and_lie_within_the_run(executor):
    """One for each iteration, on the clock of time.monotonic_ns()."""
    outfeed = IPUOutfeedQueue()
    function = tf.function(
        lambda: loops.repeat(500, lambda: outfeed.enqueue(read_clock())),
        jit_compile=executor == "xla",
    )

    before = time.monotonic_ns()
    with params.executor_scope(executor), tf.device("/device:IPU:0"):
        function()
    after = time.monotonic_ns()
    stamps = to_ns(outfeed.dequeue())

    assert stamps.shape == (500,)
    assert before <= stamps[0]
    assert stamps[-1] <= after
    assert (np.diff(stamps) > 0).all()


def test_in_eager_mode_it_reads_at_once():
    """Between two looks of the host."""
    before = time.monotonic_ns()
    stamp = to_ns(read_clock())

    assert before <= stamp <= time.monotonic_ns()


@pytest.mark.parametrize(
    "stamps", [np.zeros([3, 2], np.int64), np.zeros([3], np.int32), tf.zeros([2])]
)
def test_what_is_not_a_stamp_is_refused(stamps):
    """By dtype and shape."""
    with pytest.raises(ValueError, match=r"`stamps` must be of dtype int32 and shape"):
        to_ns(stamps)


PROGRAM = """
import ipufeed, tensorflow as tf
from ipufeed.device.program import loops
function = tf.function(lambda: loops.repeat(9, lambda x: x + 1, [0]), jit_compile=True)
with tf.device("/device:IPU:0"):
    for _ in range(3):
        function()
    tf.constant(1) + 1
"""


@pytest.mark.process
@pytest.mark.parametrize(("flags", "lines"), [("--log_cycle_count=0", 3), ("", 0)])
def test_each_program_logs_its_cycles_if_asked_to(flags, lines):
    """A line for each run of a program, and none for single ops or without the flag."""
    done = run_python(PROGRAM, "0", TF_POPLAR_FLAGS=flags)

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Cycle count of program ") == lines
