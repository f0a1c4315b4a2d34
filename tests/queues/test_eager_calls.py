"""Queue operations that are called outside of a function, and in a forked process."""

import os
import signal
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

import ipufeed as ipu
from ipufeed.queues import eager_calls


def test_an_enqueue_outside_of_a_function_is_a_program_that_has_ended():
    outfeed = ipu.IPUOutfeedQueue()
    outfeed.enqueue(tf.constant(1))
    outfeed.enqueue(tf.constant(2))

    np.testing.assert_array_equal(outfeed.dequeue().numpy(), [1, 2])
    assert outfeed.deleter is None


def test_a_dequeue_outside_of_a_function_leaves_the_queue_free():
    infeed = ipu.IPUInfeedQueue(
        tf.data.Dataset.range(9).map(lambda i: tf.cast(i, tf.int32))
    )
    assert infeed.initializer is None

    assert [int(infeed._dequeue()) for _ in range(3)] == [0, 1, 2]
    assert infeed.deleter is None


def test_nothing_to_enqueue_is_refused_and_leaves_no_mark():
    outfeed = ipu.IPUOutfeedQueue()
    with pytest.raises(ValueError, match="was given no tensor to enqueue"):
        outfeed.enqueue({})

    with pytest.raises(
        ValueError, match=r"Outfeed queue '.*' takes tensors.* got None"
    ):
        outfeed.enqueue(None)

    outfeed.enqueue([tf.constant(3)])
    assert [each.numpy().tolist() for each in outfeed.dequeue()] == [[3]]
    assert outfeed.deleter is None


@pytest.mark.parametrize(
    "use", ["dequeue()", "stats()", "__iter__().__next__()", "stream()"]
)
def test_a_forked_child_gets_an_error_instead_of_waiting(use):
    """The IPU's program runs in the parent alone."""
    outfeed = ipu.IPUOutfeedQueue()

    @tf.function
    def give():
        outfeed.enqueue(tf.constant(1))

    give()
    child = os.fork()
    if child == 0:
        try:
            eval(f"outfeed.{use}", {"outfeed": outfeed})
        except tf.errors.FailedPreconditionError as error:
            os._exit(7 if "forked" in error.message else 8)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert outfeed.deleter is None


class InterruptedLock:
    """A lock during whose n-th release Ctrl-C comes."""

    def __init__(self, number):
        self.lock = threading.RLock()
        self.releases_left = number

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()
        self.releases_left -= 1
        if self.releases_left == 0:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("release", [1, 2])
def test_ctrl_c_at_the_start_or_end_of_a_call_leaves_no_call_counted(
    monkeypatch, release
):
    """Programs of later eager calls are still ended: no function is running then."""
    from tensorflow.python.eager import cancellation

    ended, last_program = [], 5
    entry = types.SimpleNamespace(
        ipufeed_last_program=lambda: last_program,
        ipufeed_end_eager_programs=ended.append,
    )
    monkeypatch.setattr(eager_calls._native, "entry", lambda: entry)
    # What the wrapping replaces is restored at the end.
    monkeypatch.setattr(cancellation, "context", cancellation.context)
    monkeypatch.setattr(eager_calls, "_end_of_eager_calls", None)
    with monkeypatch.context() as patch:
        patch.setattr(eager_calls.threading, "Lock", lambda: InterruptedLock(release))
        call = eager_calls.ends_programs_of_calls(lambda context, name: name)

    with pytest.raises(KeyboardInterrupt):
        call(None, "function")
    assert call(None, "function") == "function"
    ended.clear()
    eager_calls.end_eager_call()

    assert ended == [last_program]
