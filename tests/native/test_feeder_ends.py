"""What the feeder takes of CPU and memory, and how a measurement is stopped."""

import gc
import threading
import time

import pytest
import tensorflow as tf
from feeder_datasets import ALL
from helpers import (
    DEADLOCK_S,
    live_feeders,
    rss_bytes,
    run_op,
    run_python,
    sleeping,
    threads,
)

from ipufeed import _native

pytestmark = pytest.mark.long


def test_a_slow_dataset_costs_hardly_any_cpu():
    """Waiting for 1 ms per element parks; the bound is far above what it takes."""
    counters, _ = run_op(sleeping(0.001), seconds_ns=10**9)

    seconds = (counters["last_ns"] - counters["first_ns"]) / 1e9
    assert counters["elements"] > 0
    assert counters["cpu_ns"] / 1e9 < 0.25 * seconds


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_starting_and_stopping_leaves_nothing_behind(count):
    """Threads, feeders and memory are back where they were."""
    dataset = tf.data.Dataset.range(100).shuffle(10).map(lambda x: x + 1).prefetch(2)
    for _ in range(30):  # pools and arenas reach their size
        run_op(dataset, epochs=1, elements_per_epoch=3)
    gc.collect()
    threads_before, rss_before = threads(), rss_bytes()
    feeders_before = live_feeders()

    for _ in range(count):
        counters, _ = run_op(dataset, epochs=1, elements_per_epoch=3)
        assert counters["elements"] == 3
    gc.collect()

    assert live_feeders() <= feeders_before
    assert threads() <= threads_before + 2  # TensorFlow's own may come and go
    assert rss_bytes() - rss_before < 32 << 20


def test_cancelling_the_step_stops_a_blocked_measurement():
    """A cancelled function call returns with Cancelled, long before the next element."""
    from tensorflow.python.eager import cancellation

    dataset = sleeping(100.0)
    manager = cancellation.CancellationManager()
    ops = _native.load()
    function = tf.function(
        lambda: ops.ipufeed_measure_dataset(
            dataset._variant_tensor, run=tf.constant(0, tf.int64), seconds_ns=10**9
        )
    ).get_concrete_function()
    cancellable = manager.get_cancelable_function(function)
    timer = threading.Timer(0.3, manager.start_cancel)
    start = time.monotonic()

    timer.start()
    with pytest.raises(tf.errors.CancelledError):
        cancellable()

    assert time.monotonic() - start < DEADLOCK_S
    timer.join()


@pytest.mark.process
def test_closing_a_session_stops_a_blocked_measurement():
    """Session.close while Python code holds an element neither hangs nor crashes."""
    done = run_python(
        """
import threading, time
import ipufeed
from ipufeed import _native
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
started = threading.Event()
def slow(x):
    started.set()
    time.sleep(1.0)
    return x
with tf.Graph().as_default() as graph:
    dataset = tf.data.Dataset.range(100).map(
        lambda x: tf.py_function(slow, [x], tf.int64))
    op = _native.load().ipufeed_measure_dataset(
        dataset._variant_tensor, run=tf.constant(0, tf.int64), seconds_ns=10**11)
session = tf.compat.v1.Session(graph=graph)
outcome = []
def run():
    try:
        outcome.append(session.run(list(op)))
    except tf.errors.OpError as error:
        outcome.append(type(error).__name__)
thread = threading.Thread(target=run)
thread.start()
assert started.wait(30)
session.close()
thread.join(20)
assert not thread.is_alive()
del session
print(outcome)
"""
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['CancelledError']"


def test_a_dataset_can_stop_its_own_measurement():
    """Nothing is held while a measurement is stopped that what it stops could need."""
    entry = _native.entry()
    number = entry.ipufeed_run_new()

    def stop_at_five(x):
        if x == 5:
            entry.ipufeed_run_stop(number)
            entry.ipufeed_run_stop(number)
        return x

    dataset = tf.data.Dataset.range(10**9).map(
        lambda x: tf.py_function(stop_at_five, [x], tf.int64)
    )
    output = _native.load().ipufeed_measure_dataset(
        dataset._variant_tensor,
        run=tf.constant(number, tf.int64),
        seconds_ns=60 * 10**9,
    )
    entry.ipufeed_run_free(number)

    names = [name.decode() for name in output.names.numpy()]
    counters = dict(zip(names, output.values.numpy().tolist(), strict=True))
    assert counters["stopped"] == 1
    assert counters["elements"] <= 6
    assert counters["finished_ns"] - counters["requested_ns"] < 30e9


@pytest.mark.process
def test_the_interpreter_exits_while_a_dataset_is_asleep():
    """An exit in the middle of a measurement is an exit, with code 0."""
    done = run_python(
        """
import threading, time
import ipufeed
from ipufeed import _native
import tensorflow as tf
started = threading.Event()
def slow(x):
    started.set()
    time.sleep(3.0)
    return x
dataset = tf.data.Dataset.range(100).map(lambda x: tf.py_function(slow, [x], tf.int64))
run = lambda: _native.load().ipufeed_measure_dataset(
    dataset._variant_tensor, run=tf.constant(0, tf.int64), seconds_ns=10**11)
threading.Thread(target=run, daemon=True).start()
assert started.wait(30)
print("leaving", flush=True)
"""
    )

    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr


@pytest.mark.process
def test_the_interpreter_waits_for_a_dataset_that_is_being_taken_down():
    """Else Python would end the feeder's thread in a destructor: an abort."""
    done = run_python(
        """
import threading, time
import ipufeed
from ipufeed import _native
import tensorflow as tf
started = threading.Event()
def numbers():
    try:
        while True:
            yield 1
            started.set()
    finally:
        time.sleep(4.0)
        print("closed", flush=True)
dataset = tf.data.Dataset.from_generator(
    numbers, output_signature=tf.TensorSpec([], tf.int64))
run = lambda: _native.load().ipufeed_measure_dataset(
    dataset._variant_tensor, run=tf.constant(0, tf.int64), seconds_ns=10**11)
threading.Thread(target=run, daemon=True).start()
assert started.wait(30)
print("leaving", flush=True)
"""
    )

    assert (done.returncode, done.stdout) == (0, "leaving\nclosed\n"), done.stderr


def test_a_function_may_be_called_on_a_device_by_name():
    """As tf.data's own multi-device iterators, which Keras uses, do."""
    from tensorflow.python.ops import functional_ops

    @tf.function
    def double(x):
        return x * 2

    concrete = double.get_concrete_function(tf.TensorSpec([], tf.int64))

    def call(x):
        (y,) = functional_ops.remote_call(
            target="/device:CPU:0", args=[x], Tout=[tf.int64], f=concrete
        )
        return y

    counters, _ = run_op(tf.data.Dataset.range(20).map(call), **ALL)
    assert counters["elements"] == 20
