"""Assertions hold in compiled programs, and a run that fails one updates nothing."""

import numpy as np
import pytest
import styles
import tensorflow as tf

from ipufeed.device.program import loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUOutfeedQueue

BOTH = [("graph", "xla"), ("graph, while v2", "xla"), ("function", "xla")]


@pytest.mark.parametrize("style", BOTH, ids=", ".join, indirect=True)
@pytest.mark.parametrize("has_values", [False, True], ids=["text", "values"])
def test_a_run_that_fails_updates_nothing_and_the_next_runs(style, has_values):
    """The limit is reached in the second iteration; the message names the assertion."""
    total = style.variable(np.float32(0), "total")
    infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(VALUES).repeat())

    def body(value):
        data = ["below the limit", value] if has_values else ["below the limit"]
        with tf.control_dependencies([tf.debugging.Assert(value < 10, data)]):
            return total.assign_add(value, read_value=False)

    run = style.build(lambda: style.repeat(2, body, [], infeed))
    run()
    with pytest.raises(
        tf.errors.InternalError,
        match=r"Assertion .*Assert failed: \[below the limit\]",
    ):
        run()
    assert style.read(total) == 3
    run()
    assert style.read(total) == 3 + 5


# Two for each run; the fourth fails.
VALUES = np.array([1, 2, 4, 99, 2, 3], np.float32)


def test_an_assertion_holds_in_a_branch_that_is_taken():
    """And not in the other."""
    strategy = IPUStrategy()

    @tf.function(jit_compile=True)
    def net(value, asks):
        def checked():
            tf.debugging.assert_less(value, 10.0, message="too large")
            return value

        return tf.cond(asks, checked, lambda: value)

    with strategy.scope():
        large = tf.constant(20.0)
        assert strategy.run(net, [large, tf.constant(False)]).numpy() == 20
        assert strategy.run(net, [tf.constant(2.0), tf.constant(True)]).numpy() == 2
        with pytest.raises(tf.errors.InternalError, match=r"failed: .*too large"):
            strategy.run(net, [large, tf.constant(True)])


def test_an_assertion_may_be_mapped_over_a_batch():
    """tf.vectorized_map has the assertion hold for all rows."""
    strategy = IPUStrategy()

    @tf.function(jit_compile=True)
    def net(rows):
        def one(row):
            with tf.control_dependencies(
                [tf.debugging.Assert(row[0] > 0, ["positive"])]
            ):
                return row * 2

        return tf.vectorized_map(one, rows)

    with strategy.scope():
        rows = strategy.run(net, [tf.constant([[1.0], [2.0]])])
        with pytest.raises(tf.errors.InternalError, match="positive"):
            strategy.run(net, [tf.constant([[1.0], [-2.0]])])
    np.testing.assert_array_equal(rows, [[2.0], [4.0]])


def test_the_executor_reports_tensorflow_s_error():
    """Values included."""
    with styles.entered("graph", "tensorflow") as style:
        outfeed = IPUOutfeedQueue()

        def net(value):
            check = tf.debugging.Assert(value < 10, [value])
            with tf.control_dependencies([check]):
                return loops.repeat(1, lambda v: (v, outfeed.enqueue(v)), [value])

        run = style.build(net, 1.0)
        assert styles.only(run(1.0)) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            run(20.0)
