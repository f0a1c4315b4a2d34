"""One process, of test_outlive.py: what must outlive a queue, a session, a fork, a handler.

python outlive.py --> a line for each case, once it has gone well
"""

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))

import tensorflow as tf
from feeding import numbers, until
from helpers import DEADLOCK_S, live_feeders
from tensorflow.python.distribute.one_device_strategy import OneDeviceExtended

from ipufeed import _native
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue


def waiting(entered, go):
    """A map that calls Python code, which waits."""

    def wait(value):
        entered.set()
        go.wait(DEADLOCK_S)
        return value

    def call(value):
        return tf.ensure_shape(tf.numpy_function(wait, [value], value.dtype), [])

    return call


def a_dataset_read_by_another(parallel):
    """TensorFlow's MultiDeviceIterator reads ahead after the infeed that read it has gone.

    It allocates on the device, and runs its functions on the threads, of the function
    that read from it first, which was the infeed's.
    """
    entered, go = threading.Event(), threading.Event()
    counted = []

    def count(value):
        counted.append(value)
        return value

    dataset = numbers(64).map(waiting(entered, go))
    if parallel:
        dataset = dataset.map(lambda x: x + 1.0, num_parallel_calls=2)
    dataset = dataset.batch(4, drop_remainder=True).map(
        lambda x: tf.ensure_shape(tf.numpy_function(count, [x], tf.float32), [4])
    )
    before = live_feeders()
    strategy = IPUStrategy()
    with strategy.scope():
        # As strategies of TensorFlow do it; an IPUStrategy gives the dataset itself.
        distribute = OneDeviceExtended._experimental_distribute_dataset
        iterator = iter(distribute(strategy.extended, dataset, None))
    for each in gc.get_objects():
        if isinstance(each, IPUInfeedQueue) and each._initialized:
            each.read_ahead()
    inner = iterator._iterators[0]._iterator
    alive = inner._multi_device_iterator_resource
    assert entered.wait(DEADLOCK_S)
    del iterator, inner
    gc.collect()
    until(lambda: live_feeders() <= before)
    churn = [tf.zeros([i]) for i in range(300)]  # takes the memory that was freed
    go.set()
    until(lambda: len(counted) >= 2)
    del alive, churn
    print("read by another,", "parallel" if parallel else "one by one", flush=True)


def a_session_closed_under_a_function():
    """The function looks a table up after the session that had it has been closed."""
    for _ in range(5):
        entered, go = threading.Event(), threading.Event()
        with tf.Graph().as_default():
            pairs = tf.lookup.KeyValueTensorInitializer(
                tf.range(4, dtype=tf.int64), tf.range(4)
            )
            table = tf.lookup.StaticHashTable(pairs, -1)
            wait = waiting(entered, go)
            dataset = tf.data.Dataset.range(4).map(lambda i, t=table, w=wait: t[w(i)])
            queue = IPUInfeedQueue(dataset)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.tables_initializer())
                session.run(queue.initializer)
                queue.read_ahead()
                assert entered.wait(DEADLOCK_S)
        del session
        churn = [tf.zeros([i]) for i in range(300)]
        go.set()
        until(lambda: live_feeders() == 0)
        del churn
    print("a session closed", flush=True)


def exit_with(code):
    sys.exit(code)


def fail():
    raise ValueError("a child's")


def forks():
    """A child ends by itself: it knows none of its parent's feeders."""
    queues = [IPUInfeedQueue(numbers()) for _ in range(3)]
    for queue in queues:
        _ = queue.initializer
        queue.read_ahead()
    entry = _native.entry()
    stop_all = entry.ipufeed_stop_all

    def stop_all_of_child(timeout_ns):
        if entry.ipufeed_live_feeders() != 0:
            os.write(1, b"a child has feeders\n")
        return stop_all(timeout_ns)

    entry.ipufeed_stop_all = stop_all_of_child
    for act, code in (
        (lambda: os._exit(5), 5),
        (lambda: exit_with(3), 3),
        (lambda: None, 0),
        (fail, 1),
    ):
        child = os.fork()
        if child == 0:
            act()
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == code
    fork = multiprocessing.get_context("fork")
    for target, code in ((os.getpid, 0), (fail, 1)):
        process = fork.Process(target=target)
        process.start()
        process.join()
        assert process.exitcode == code
    with fork.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    entry.ipufeed_stop_all = stop_all
    assert all(queue.stats().capacity > 0 for queue in queues)
    print("forks", flush=True)


def handlers():
    """Handlers that call the one before them, put in place before and after a program."""
    call = _native.entry().ipufeed_main_thread_calls

    def program():
        call(1)
        call(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        came = []

        def press(number=number, came=came):
            program()
            before = len(came)
            os.kill(os.getpid(), number)
            until(lambda: len(came) > before)

        def first(number, frame, came=came):
            came.append("first")

        def second(number, frame, came=came):
            first(number, frame)
            came[-1] = "second, first"

        old = signal.signal(number, first)
        program()
        with tempfile.TemporaryFile() as file:
            faulthandler.register(number, file=file, chain=True)
            press()  # faulthandler, then Python's
            press()  # it has put itself in place of the hook
            signal.signal(number, second)
            press()  # Python's alone
            faulthandler.unregister(number)  # puts the hook in place that was there
            press()
            file.seek(0)
            assert file.read().count(b"(most recent call first)") >= 2
        assert came == ["first", "first", "second, first", "second, first"], came
        signal.signal(number, old)
    print("handlers", flush=True)


def stuck_feeders():
    """The end of a process waits for all feeders together, not for one after another."""
    never = threading.Event()
    all_entered = [threading.Event() for _ in range(20)]
    queues = [IPUInfeedQueue(numbers().map(waiting(e, never))) for e in all_entered]
    for queue in queues:
        _ = queue.initializer
        queue.read_ahead()
    for entered in all_entered:
        assert entered.wait(DEADLOCK_S)
    start = time.monotonic()
    _native.entry().ipufeed_stop_all(3_000_000_000)
    assert time.monotonic() - start < 30.0  # one after another: 60 s
    assert live_feeders() == 20
    never.set()
    print("stuck feeders", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        a_dataset_read_by_another(parallel=False)
        a_dataset_read_by_another(parallel=True)
        a_session_closed_under_a_function()
        handlers()
        forks()
        stuck_feeders()  # the last: no dataset is taken down any more
