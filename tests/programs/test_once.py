"""What the first of several threads does for all of them, once in a process."""

import threading

import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, run_python

from ipufeed.once import once
from ipufeed.parallel.collectives import joining


def by_three_threads(call, begun):
    """Returns what each thread has got; two begin once the first is within the call."""
    found = []

    def note():
        try:
            found.append(call())
        except tf.errors.FailedPreconditionError as error:
            found.append(error.message)

    threads = [threading.Thread(target=note) for _ in range(3)]
    threads[0].start()
    begun.wait(DEADLOCK_S)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK_S)
    return found


class Slow:
    """Takes its time, and fails at first."""

    def __init__(self):
        self.calls = []
        self.begun = threading.Event()

    def __call__(self, *arguments):
        self.calls.append(arguments)
        self.begun.set()
        threading.Event().wait(0.2)  # the others come
        if len(self.calls) == 1:
            raise tf.errors.FailedPreconditionError(None, None, "not yet")
        return object()


def test_what_is_done_once_is_not_done_by_two_threads():
    """The others wait for the first; what raises is done again."""
    slow = Slow()
    function = once(lambda: slow())

    failed, result, same = by_three_threads(function, slow.begun)

    assert failed == "not yet"
    assert result is same is function()
    assert len(slow.calls) == 2


def test_other_arguments_are_another_call():
    """Each has a result of its own."""
    made = []
    function = once(lambda *arguments: made.append(arguments) or len(made))

    assert [function(1, 2), function(1), function(1, 2), function(1)] == [1, 2, 1, 2]
    assert made == [(1, 2), (1,)]


def test_threads_get_one_group_of_processes(monkeypatch):
    """A second one could not listen at the same address; one that fails is made again."""
    slow = Slow()
    monkeypatch.setattr(joining, "Group", slow)

    failed, result, same = by_three_threads(lambda: joining.group(97, 5), slow.begun)

    assert failed == "not yet"
    assert result is same
    assert slow.calls == [(97, 5)] * 2


FIRST = """
import sys, threading
import tensorflow as tf
import ipufeed
from ipufeed.ops.internal_ops import fifo
from ipufeed.parallel.collectives.ops import cross_replica_sum

barrier, built = threading.Barrier(6), []

def build():
    barrier.wait()
    with tf.Graph().as_default():
        built.append(cross_replica_sum(fifo(tf.constant(1.0), 1)))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=build) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(built), [each.name for each in threading.enumerate()].count("ipufeed_interrupt"))
"""


@pytest.mark.process
def test_threads_may_build_the_first_programs_of_a_process():
    """What is registered and patched with the first one is so once."""
    done = run_python(FIRST)

    assert done.stdout.split() == ["6", "1"], done.stderr


STRATEGIES = """
import sys, threading, time
import keras
import ipufeed
from ipufeed.keras import install

barrier, built = threading.Barrier(6), []
stock, change = keras.Model.fit, install.change

def slowly(*classes):
    time.sleep(0.3)  # until the other threads are here
    change(*classes)

install.change = slowly

def build():
    barrier.wait()
    built.append(ipufeed.IPUStrategy())

threads = [threading.Thread(target=build) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
finders = [type(each).__name__ for each in sys.meta_path].count("_AfterImport")
depth, method = 0, keras.Model.fit
while method is not stock:
    depth, method = depth + 1, method.__wrapped__
print(len(built), finders, depth)
"""


@pytest.mark.process
def test_threads_may_create_the_first_strategies_of_a_process():
    """Keras is patched once: its methods are not wrapped twice."""
    done = run_python(STRATEGIES)

    assert done.stdout.split() == ["6", "1", "1"], done.stderr


SEARCHED = """
import importlib.util
import sys
import ipufeed

ipufeed.IPUStrategy()
assert "tf_keras" not in sys.modules
assert importlib.util.find_spec("tf_keras") is not None
import tf_keras

print(hasattr(tf_keras.Model, "set_pipelining_options"))
"""


@pytest.mark.process
def test_a_keras_that_is_looked_for_before_its_import_is_patched():
    """As packages do that support several."""
    done = run_python(SEARCHED)

    assert done.stdout.split() == ["True"], done.stderr
