"""Version 1 graphs in which the executor runs a loop or a branch, between programs.

Each has the results that the host has, and its variables their values.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.function import Defun

from ipufeed.device.program import compiler
from ipufeed.device.program.executor import executor_scope
from ipufeed.device.program.scopes import ipu_scope

v1 = tf.compat.v1
VALUES = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
# A program that waits for itself ends with an error.
CONFIG = v1.ConfigProto(operation_timeout_in_ms=20_000)


def numbers_of(build, place, version_2=False):
    """Runs a graph for two inputs: returns its results, and then its variable."""
    before = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if version_2 else v1.disable_control_flow_v2)()
    on_ipu = contextlib.nullcontext() if place == "host" else ipu_scope("/device:IPU:0")
    try:
        with tf.Graph().as_default():
            value = v1.placeholder(tf.float32, VALUES.shape)
            with on_ipu:
                weights = v1.get_variable(
                    "weights", initializer=VALUES / 2, use_resource=True
                )
                if place == "executor":
                    with executor_scope("tensorflow"):
                        results = compiler.compile(lambda x: build(x, weights), [value])
                else:
                    results = build(tf.identity(value), weights)
            with v1.Session(config=CONFIG) as session:
                session.run(v1.global_variables_initializer())
                runs = [session.run(results, {value: k * VALUES}) for k in (1, -1)]
                return [*runs[0], *runs[1], session.run(weights)]
    finally:
        (v1.enable_control_flow_v2 if before else v1.disable_control_flow_v2)()


def assert_as_on_the_host(build, place="ipu", version_2=False):
    expected = numbers_of(build, "host", version_2)
    found = numbers_of(build, place, version_2)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def updated(y, weights):
    """The result, when a step of the gradient's descent has changed the weights."""
    step = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y * y))
    with tf.control_dependencies([step]):
        return [tf.identity(y), weights.read_value()]


def choice(x, weights):
    return tf.cond(tf.reduce_sum(x) > 0.5, lambda: x * 0.9, lambda: x + weights)


def test_an_update_by_the_gradient_of_a_loop_waits_for_the_loop():
    """The loop keeps values without a bound, so that the executor runs it."""

    def build(x, weights):
        y = tf.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, choice(x, weights)),
            (0, x),
            maximum_iterations=3,
        )[1]
        return updated(y, weights)

    assert_as_on_the_host(build)


@pytest.mark.parametrize("version_2", [False, True])
def test_the_gradient_of_a_function_gets_the_lists_of_its_loops(version_2):
    def build(x, weights):
        def function(x):
            for _ in tf.range(2):
                x = tf.tanh(x) * weights
            return x

        return updated(tf.function(function)(x), weights)

    assert_as_on_the_host(build, version_2=version_2)


def test_the_gradient_of_a_defun_reads_the_variables_of_the_ipu():
    def build(x, weights):
        @Defun(tf.float32)
        def function(x):
            return x * weights

        y = function(x)
        y.set_shape(VALUES.shape)
        return updated(y, weights)

    assert_as_on_the_host(build)


def test_rows_that_a_branch_with_variables_counts_are_summed():
    """XLA needs their number before it compiles, and cannot take a variable for it."""

    def build(x, weights):
        def counting():
            with tf.control_dependencies([weights.assign_add(x)]):
                return tf.gather(x, [1, 0]) + weights.read_value()

        index = tf.cast(tf.reduce_sum(x) > 0.0, tf.int32)
        y = tf.switch_case(index, [lambda: x * 0.5, counting, lambda: x + weights])
        return [y, tf.convert_to_tensor(tf.gradients(tf.reduce_sum(y * y), x)[0])]

    assert_as_on_the_host(build, version_2=True)


def test_what_follows_a_branch_in_a_branch_is_in_the_outer_one():
    """Second gradients have it: a program of what always runs does not contain them."""

    def build(x, weights):
        def inner():
            return tf.cond(
                tf.reduce_sum(x) < -0.5,
                lambda: tf.sort(x),
                lambda: x * tf.sin(x) - tf.sort(x),
            )

        y = tf.cond(tf.reduce_sum(x) > 0.5, lambda: x * weights, inner)
        first = tf.gradients(tf.reduce_mean(y * y), x)[0]
        return [first, tf.gradients(tf.reduce_sum(first * first), x)[0]]

    assert_as_on_the_host(build)


@pytest.mark.parametrize("nested", [False, True])
def test_no_program_of_the_executor_waits_for_a_branch_that_is_not_taken(nested):
    """Gradients of a branch have effects outside of it: reads, arrays, functions."""

    def build(x, weights):
        def array():
            rows = tf.TensorArray(tf.float32, 2, element_shape=[3]).unstack(x)
            return tf.stack([rows.read(1), rows.read(0)]) * weights

        def inner():
            if not nested:
                return array()
            y = tf.cond(tf.reduce_sum(x) > 9.0, lambda: x, lambda: tf.sin(x))
            rows = tf.TensorArray(tf.float32, 2, element_shape=[3]).unstack(y)
            return tf.stack([rows.read(1), rows.read(0)]) * weights

        y = tf.cond(tf.reduce_sum(x) > 0.5, lambda: x * weights, inner)
        return updated(y, weights)

    assert_as_on_the_host(build, "executor")


@pytest.mark.parametrize("both", [False, True], ids=["one branch", "both branches"])
def test_an_effect_in_an_inner_conditional_happens_once(both):
    """TensorFlow copies an inner conditional for each result of the one around it."""

    def build(x, weights):
        def update():
            with tf.control_dependencies([weights.assign(weights * 1.5 + 1.0)]):
                return x * weights.read_value()

        def inner():
            low = tf.reduce_sum(x) < -1.0
            return v1.cond(low, lambda: tf.sin(x), lambda: update() - x)

        high = tf.reduce_sum(x) > 3.0
        y = v1.cond(high, update if both else lambda: x * 2.0, inner)
        return [y, v1.gradients(y, x)[0]]

    assert_as_on_the_host(build)
    assert_as_on_the_host(lambda x, weights: build(x * 4.0, weights))


def test_a_conditional_next_to_a_loop_of_the_executor_keeps_what_follows():
    """TensorFlow removed it, in about half of such graphs."""

    def build(x, weights):
        def body(i, x):
            with tf.control_dependencies([v1.assert_less(x, 1e30)]):
                return i + 1, x * 0.5

        def loop(x):
            return v1.while_loop(lambda i, x: i < 3, body, (0, x), back_prop=False)[1]

        y = choice(x, weights) * 0.5 + loop(x)
        optimizer = v1.train.AdagradOptimizer(0.1)
        ((gradient, variable),) = optimizer.compute_gradients(
            tf.reduce_mean(y * y), [weights], colocate_gradients_with_ops=True
        )
        clipped, _ = tf.clip_by_global_norm([gradient], 0.5)
        step = optimizer.apply_gradients(zip(clipped, [variable], strict=True))
        with tf.control_dependencies([step]):
            return [tf.identity(y), weights.read_value()]

    for _ in range(8):
        assert_as_on_the_host(build)
