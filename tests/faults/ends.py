"""One process each, of test_ends.py: `python ends.py CASE` ends with an exception.

    start(CASE) --> queues, programs and datasets at work --> raise, or sys.exit

What is at work is left as it is: nothing is stopped, waited for or deleted.
"""

import ctypes
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))

import numpy as np
import tensorflow as tf
from feeding import IPU, Feeding, numbers, silent, until
from helpers import sleeping

from ipufeed import _native, benchmark
from ipufeed.benchmark.result.settings import Settings
from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue

never = threading.Event()
kept = []  # what is alive at the end


def in_thread(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def python_that_sleeps(seconds):
    """0.0, 1.0, ...; each from Python code that sleeps."""

    def sleep(value):
        time.sleep(seconds)
        return value

    def give(i):
        value = tf.numpy_function(sleep, [tf.cast(i, tf.float32)], tf.float32)
        return tf.ensure_shape(value, [])

    return tf.data.Dataset.range(1_000_000).map(give, num_parallel_calls=2)


def by_strategy(feeds, n):
    strategy = IPUStrategy()
    with strategy.scope():
        strategy.run(feeds.program, [n])


def keras_fit():
    """Keras reads the dataset through TensorFlow's MultiDeviceIterator."""
    x = np.zeros([2000, 28, 28, 1], np.float32)
    y = np.zeros([2000], np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10000)
    dataset = dataset.batch(32, drop_remainder=True).map(lambda a, b: (a * 2.0, b))
    with IPUStrategy().scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)]
        )
        model.compile(
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
        model.fit(dataset.repeat(), steps_per_epoch=20, epochs=2)


def iterators():
    """Several, one of a strategy's datasets, in a cycle of references."""
    strategy = IPUStrategy()
    with strategy.scope():
        for dataset in (numbers(), python_that_sleeps(0.01), numbers().shuffle(1000)):
            batches = dataset.batch(4, drop_remainder=True)
            kept.append(iter(strategy.experimental_distribute_dataset(batches)))
            kept.append(iter(dataset))
    kept.append(kept)


def many_feeders():
    """Full rings, Python code that sleeps, and a dataset that is silent."""
    for dataset in (numbers(), python_that_sleeps(0.05), silent(never)):
        for _ in range(3):
            kept.append(Feeding(dataset))
            kept[-1].infeed.read_ahead()


def blocked_program():
    feeds = Feeding(silent(never))
    kept.append(feeds)
    in_thread(by_strategy, feeds, 3)
    until(lambda: feeds.infeed.stats().device_parks > 0)


def running_program():
    """With a collector that reads its results."""
    feeds = Feeding(numbers())
    kept.append(feeds)
    in_thread(by_strategy, feeds, 1_000_000)
    until(lambda: feeds.infeed.stats().elements > 0)

    def collect():
        for _ in feeds.outfeed.stream():
            pass

    in_thread(collect)


def compiling(layers=300, seconds=1.5):
    def body(x, element):
        for _ in range(layers):
            x = tf.nn.relu(tf.linalg.matmul(x, x) + element)
        return x

    infeed = IPUInfeedQueue(numbers())
    _ = infeed.initializer
    kept.append(infeed)

    @tf.function(jit_compile=True)
    def program(x):
        return loops.repeat(10, body, [x], infeed)

    # Traced here: a thread that traces while Python ends aborts it in TensorFlow's calls.
    with tf.device(IPU):
        x = tf.zeros([64, 64])
        traced = program.get_concrete_function(x)

    def run():
        with tf.device(IPU):
            traced(x)

    in_thread(run)
    time.sleep(seconds)  # in XLA's hands


def compiling_for_long():
    """The end waits for no compilation; destructors of static objects would abort."""
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(libc.abort, None, None)
    _native.FUNCTION_GRACE_S = 0.0
    compiling(layers=1500, seconds=0.5)


def in_a_session():
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(python_that_sleeps(0.01))
        with ipu_scope(IPU):
            run = compiler.compile(
                lambda: loops.repeat(1_000_000, lambda x: None, infeed_queue=infeed)
            )
        session = tf.compat.v1.Session()
        session.run(infeed.initializer)
    kept.extend([infeed, session])
    in_thread(session.run, run)
    until(lambda: infeed.stats().elements > 0)


def device_tensors():
    with tf.device(IPU):
        x = tf.random.normal([256, 256])
        kept.extend([tf.Variable(x), tf.linalg.matmul(x, x)])

    def add():
        y = x
        for _ in range(100_000):
            y = y + 1.0

    in_thread(add)


def measuring():
    live_feeders = _native.entry().ipufeed_live_feeders
    before = live_feeders()
    for dataset in (sleeping(0.001), python_that_sleeps(0.05)):
        in_thread(benchmark.measure, dataset, Settings(seconds=60.0))
    until(lambda: live_feeders() == before + 2)


def all_at_once():
    for start in (many_feeders, blocked_program, device_tensors, measuring):
        start()


CASES = {
    "keras fit": keras_fit,
    "iterators": iterators,
    "many feeders": many_feeders,
    "a blocked program": blocked_program,
    "a running program and a collector": running_program,
    "a program that is compiled": compiling,
    "a long compilation": compiling_for_long,
    "a program in a session": in_a_session,
    "device tensors": device_tensors,
    "measurements": measuring,
    "all at once": all_at_once,
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    if len(sys.argv) > 2:
        sys.exit(int(sys.argv[2]))
    raise RuntimeError("the program ends here")
