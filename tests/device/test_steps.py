"""What a step inside a program promises: its length, its place, its end when stopped."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, run_python, sleeping

from ipufeed import _native
from ipufeed.device.program import executor as params
from ipufeed.device.program import loops
from ipufeed.device.program.steps import LONGEST_S, as_nanoseconds, step, to_times
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

IPU = "/device:IPU:0"
EXECUTORS = pytest.mark.parametrize("executor", ["xla", "tensorflow"])
FOR_EVER_S = 1e5  # a test that waits for its end hangs


def run(executor, count, body, infeed=None):
    """Runs the body `count` times, as one program."""
    function = tf.function(
        lambda: loops.repeat(count, body, infeed_queue=infeed),
        jit_compile=executor == "xla",
    )
    with params.executor_scope(executor), tf.device(IPU):
        function()


@EXECUTORS
def test_steps_of_a_source_that_is_there_follow_each_other(executor):
    """Each begins where the one before ended, and lasts as long as it should."""
    outfeed = IPUOutfeedQueue()
    length = 200_000_000
    run(executor, 4, lambda: outfeed.enqueue(step(0.2)))
    times = to_times(outfeed.dequeue())

    assert times.end.shape == (4,)
    assert (times.start[1:] == times.end[:-1]).all()
    assert (times.called >= times.start).all()
    # The one allowance: a machine on which a thread does not run for a whole step.
    late = times.end - times.start - length
    assert (late >= 0).all()
    assert np.median(late) == 0


@EXECUTORS
def test_a_step_waits_for_its_element(executor):
    """It begins when the dataset has delivered: from end to end nothing is lost."""
    outfeed = IPUOutfeedQueue()
    infeed = IPUInfeedQueue(sleeping(5e-3).map(lambda i: tf.cast(i, tf.int32)))
    length = 1_000_000
    function = tf.function(
        lambda n: loops.repeat(
            n, lambda number: outfeed.enqueue(step(1e-3)), infeed_queue=infeed
        ),
        jit_compile=executor == "xla",
    )
    with params.executor_scope(executor), tf.device(IPU):
        function(tf.constant(0))  # compiled before the dataset can run ahead of it
        asked = time.monotonic_ns()
        _ = infeed.initializer
        function(tf.constant(40))
    times = to_times(outfeed.dequeue())
    _ = infeed.deleter

    starved = (times.start - times.free)[1:]
    late = times.end - times.start - length
    assert (times.free[1:] == times.end[:-1]).all()
    # No element is there before the source has slept for it.
    assert (times.start - asked >= 5_000_000 * np.arange(1, 41)).all()
    assert (starved + length + late[1:] == np.diff(times.end)).all()


def test_a_step_of_another_length_is_the_same_program():
    """The length is an input: one compilation for both."""
    import ipufeed.executable

    outfeeds = [IPUOutfeedQueue() for _ in range(2)]
    run("xla", 2, lambda: outfeeds[0].enqueue(step(1e-3)))
    with ipufeed.executable.no_recompile():
        run("xla", 2, lambda: outfeeds[1].enqueue(step(2e-3)))

    for outfeed, length in zip(outfeeds, (10**6, 2 * 10**6), strict=True):
        times = to_times(outfeed.dequeue())
        assert (times.end - times.start >= length).all()


def test_a_tensor_of_seconds_is_rounded_to_nanoseconds():
    """Of any float; an integer is whole seconds."""
    assert int(as_nanoseconds(tf.constant(0.012, tf.float32))) == 12_000_000
    assert int(as_nanoseconds(tf.constant(0.25, tf.float16))) == 250_000_000
    assert int(as_nanoseconds(tf.constant(3))) == 3_000_000_000


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 2 * LONGEST_S])
def test_what_is_not_a_length_is_refused(seconds):
    """Before anything runs, with the bounds."""
    with pytest.raises(ValueError, match=r"`seconds` must be in \[0, 1e\+06\], got"):
        step(seconds)


@pytest.mark.parametrize("seconds", ["12ms", True, None])
def test_what_is_not_a_number_is_refused(seconds):
    """By its type and value."""
    with pytest.raises(TypeError, match="`seconds` must be a number, got"):
        step(seconds)


@EXECUTORS
def test_a_tensor_out_of_range_is_an_error_of_the_program(executor):
    """When the program gets there."""
    outfeed = IPUOutfeedQueue()
    with pytest.raises(tf.errors.InvalidArgumentError, match="A step must take 0 to"):
        run(executor, 1, lambda: outfeed.enqueue(step(tf.constant(-1.0))))


@pytest.mark.parametrize(
    "results", [np.zeros([3, 8], np.int64), np.zeros([3], np.int32)]
)
def test_what_is_not_a_result_of_a_step_is_refused(results):
    """By dtype and shape."""
    with pytest.raises(ValueError, match=r"`results` must be of dtype int32 and shape"):
        to_times(results)


@EXECUTORS
@pytest.mark.parametrize("feeds", [True, False], ids=["with queues", "alone"])
def test_a_stop_ends_a_step_at_once(executor, feeds):
    """Also of a program that uses no queue; its error says in what it was stopped."""
    outfeed = IPUOutfeedQueue()

    def program(seconds):
        def body():
            times = step(seconds)
            return outfeed.enqueue(times) if feeds else tf.group(times)

        loops.repeat(1, body)

    function = tf.function(program, jit_compile=executor == "xla")
    errors = []

    def call(seconds):
        with params.executor_scope(executor), tf.device(IPU):
            try:
                function(tf.constant(seconds))
            except tf.errors.OpError as error:
                errors.append(error)

    call(0.0)  # a stop while it is compiled has another text
    assert not errors
    thread = threading.Thread(target=call, args=[float(FOR_EVER_S)])
    thread.start()
    stop = _native.entry().ipufeed_stop_programs
    limit = int(DEADLOCK_S / 0.05)
    while thread.is_alive() and limit > 0:
        stop(b"stopped by a test")
        thread.join(0.05)
        limit -= 1

    assert not thread.is_alive(), "it hangs"
    assert isinstance(errors[0], tf.errors.CancelledError)
    assert "stopped in a step of 100000 s: stopped by a test" in errors[0].message


PREAMBLE = """
import os, signal, threading, time
import ipufeed, tensorflow as tf
from ipufeed.device.program import loops
from ipufeed.device.program.steps import step
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program import compiler
from ipufeed.queues import IPUOutfeedQueue
outfeed = IPUOutfeedQueue()
reached = threading.Event()
"""

CTRL_C = """
def press():
    while outfeed.stats().elements < 1:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
def body(i):
    times = step(tf.where(i < 1, 0.0, 1e5))
    return i + 1, outfeed.enqueue(times)
function = tf.function(lambda: loops.repeat(2, body, [0]), jit_compile=JIT)
try:
    with tf.device("/device:IPU:0"):
        function()
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""

CLOSE = """
v1 = tf.compat.v1
with tf.Graph().as_default():
    def body(i):
        times = step(tf.where(i < 1, 0.0, 1e5))
        return i + 1, outfeed.enqueue(times)
    with ipu_scope("/device:IPU:0"):
        if JIT:
            program = compiler.compile(lambda: loops.repeat(2, body, [0]))
        else:
            program = loops.repeat(2, body, [0])
    session = v1.Session()
    ended = []
    def run():
        try:
            session.run(program)
        except tf.errors.CancelledError:
            ended.append("cancelled")
    thread = threading.Thread(target=run)
    thread.start()
    while outfeed.stats().elements < 1:
        time.sleep(0.01)
    session.close()
    thread.join()
    print(*ended)
"""


@pytest.mark.process
@pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])
@pytest.mark.parametrize(
    ("code", "output"),
    [(CTRL_C, "KeyboardInterrupt"), (CLOSE, "cancelled")],
    ids=["ctrl-c", "session.close"],
)
def test_an_interruption_does_not_wait_for_the_step(code, output, jit):
    """Ctrl-C and Session.close, in the middle of a step of a day."""
    done = run_python(PREAMBLE + code.replace("JIT", str(jit)))

    assert done.stdout.strip() == output, done.stderr
