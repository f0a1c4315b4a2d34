"""Assertions hold in compiled programs, and a run that fails one updates nothing.

They have a place in the order of the program's queue calls: one that fails holds back the
calls after it, and none before it.
"""

import contextlib

import numpy as np
import pytest
import styles
import tensorflow as tf
from dependence import check_chained, compiled_modules

from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.long

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


@tf.custom_gradient
def checks_its_gradient(x):
    def gradient(dy):
        with tf.control_dependencies([tf.debugging.assert_less(dy, 10.0)]):
            return tf.identity(dy)

    return tf.identity(x), gradient


@pytest.mark.parametrize("place", ["around", "inside"])
@pytest.mark.parametrize("gradients", [tf.gradients, tf.compat.v1.gradients])
def test_an_assertion_holds_in_a_gradient_of_a_version_1_graph(gradients, place):
    """tf.gradients colocates it with its op, without a scope's device."""
    scope = ipu_scope("/device:IPU:0")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:

        def net(x, factor):
            y = checks_its_gradient(x) * factor
            with scope if place == "inside" else contextlib.nullcontext():
                return tf.identity(gradients(y, x)[0])

        x, factor = (tf.compat.v1.placeholder(tf.float32, []) for _ in range(2))
        with scope if place == "around" else contextlib.nullcontext():
            result = compiler.compile(net, [x, factor])
        assert session.run(result, {x: 1.0, factor: 9.0}) == [9.0]
        with pytest.raises(tf.errors.InternalError, match="failed"):
            session.run(result, {x: 1.0, factor: 11.0})


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


def heavy(x):
    """The same value, for which much is computed."""
    matrix = tf.eye(192) * x
    for _ in range(4):
        matrix = tf.linalg.matmul(matrix, tf.eye(192))
    return tf.reduce_sum(matrix) / 192


def with_text(x):
    tf.debugging.Assert(heavy(x) < 5.0, ["below 5"])


def with_values(x):
    """TensorFlow builds a conditional around it."""
    tf.debugging.Assert(heavy(x) < 5.0, ["below 5", x])


def in_a_branch(x):
    def checked():
        with tf.control_dependencies([tf.debugging.Assert(heavy(x) < 5.0, ["5"])]):
            return tf.identity(x)

    tf.cond(x > 1.0, checked, lambda: x)


def in_a_loop(x):
    def body(i):
        with tf.control_dependencies([tf.debugging.Assert(heavy(x + i) < 6.0, ["6"])]):
            return i + 1.0

    tf.while_loop(lambda i: i < 2.0, body, [tf.constant(0.0)])


def in_a_function(x):
    @tf.function
    def check(x):
        tf.debugging.assert_less(heavy(x), 5.0)
        return x

    check(x)


CHECKS = [with_text, with_values, in_a_branch, in_a_loop, in_a_function]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("style", "executor"), styles.CASES)
def test_an_assertion_holds_back_the_results_after_it(style, executor, check):
    """And none before it, whichever takes longer; no value of the program orders them."""
    with styles.entered(style, executor) as ready, compiled_modules() as modules:
        infeed = ready.feed(lambda: tf.data.Dataset.range(9).map(as_float))
        before, after = IPUOutfeedQueue(), IPUOutfeedQueue()

        def body(x):
            first = before.enqueue(heavy(x))
            check(x)
            return tf.group(first, after.enqueue(x))

        run = ready.build(lambda: ready.repeat(9, body, [], infeed))
        with pytest.raises(tf.errors.OpError, match=r"[Aa]ssertion"):
            run()
        assert ready.read(before.dequeue()).tolist() == [0, 1, 2, 3, 4, 5]
        assert ready.read(after.dequeue()).tolist() == [0, 1, 2, 3, 4]
    # That they came in order may be luck. That each call needs the one before is none.
    for module in modules:
        assert check_chained(module) == 4
    assert bool(modules) == (executor == "xla")


def as_float(n):
    return tf.cast(n, tf.float32)


def test_python_s_assert_holds_back_the_results_after_it():
    """In what AutoGraph rewrites, if it is asked to rewrite these as well."""
    strategy, outfeed = IPUStrategy(), IPUOutfeedQueue()
    asked = tf.autograph.experimental.Feature.ASSERT_STATEMENTS

    @tf.function(jit_compile=True, experimental_autograph_options=asked)
    def net(limit):
        for i in tf.range(9):
            assert heavy(as_float(i)) < limit, "reached"
            outfeed.enqueue(i)

    with strategy.scope(), pytest.raises(tf.errors.InternalError, match="reached"):
        strategy.run(net, [tf.constant(5.0)])
    assert outfeed.dequeue().numpy().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("style", BOTH, ids=", ".join, indirect=True)
def test_a_program_without_queue_calls_has_no_order_of_its_assertions(style):
    """Its loops carry no token, and an assertion in them holds."""

    def body(x):
        with tf.control_dependencies([tf.debugging.Assert(x < 3.0, ["below 3"])]):
            return x + 1.0

    with compiled_modules() as modules:
        run = style.build(lambda x: style.repeat(2, body, [x]), 0.0)
        assert styles.only(run(0.0)) == 2
        with pytest.raises(tf.errors.InternalError, match="below 3"):
            run(2.0)
    whiles = [
        each
        for computation in modules[0].computations
        for each in computation.instructions
        if each.opcode == "while"
    ]
    assert whiles
    assert not any("u32" in str(each.shape) for each in whiles)


def test_without_compile_a_queue_call_needs_no_assertion_of_other_ops():
    """A session runs what it fetches: the placeholder of another op is not needed."""
    with styles.entered("graph", "xla") as style:
        outfeed = IPUOutfeedQueue()
        with tf.device("cpu"):
            value = tf.compat.v1.placeholder(tf.float32, [])
        with ipu_scope("/device:IPU:0"):
            check = tf.debugging.Assert(value < 5.0, ["below 5"])
            enqueue = outfeed.enqueue(tf.constant(1.0))

        style.session.run(enqueue)
        assert style.read(outfeed.dequeue()).tolist() == [1]
        with pytest.raises(tf.errors.OpError, match="below 5"):
            style.session.run(check, {value: 6.0})
