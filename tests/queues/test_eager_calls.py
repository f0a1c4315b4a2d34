"""Queue operations that are called outside of a function, and in a forked process."""

import os

import numpy as np
import pytest
import tensorflow as tf

import ipufeed as ipu


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
def test_a_forked_child_is_told_instead_of_waiting(use):
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
