"""Whole graphs with what XLA cannot size before it runs: TensorFlow's executor runs it."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy

v1 = tf.compat.v1
X = np.array([2, 1.5, 3], np.float32)


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """Each test has a device of its own."""


def an_array_that_grows(x):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    for i in tf.range(4):
        array = array.write(i, x * tf.cast(i + 1, tf.float32))
    return array.stack()


def an_array_that_grows_from_one(x):
    array = tf.TensorArray(tf.float32, 1, dynamic_size=True)
    for i in tf.range(3):
        array = array.write(i, x[i] * 2)
    return tf.reduce_sum(array.stack())


def gradients_of_a_loop(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in tf.range(3):
            y = y * x
        total = tf.reduce_sum(y)
    return tape.gradient(total, x)


@pytest.mark.parametrize(
    "function", [an_array_that_grows, an_array_that_grows_from_one, gradients_of_a_loop]
)
def test_a_function_computes_what_it_does_without_a_device(function):
    expected = tf.function(function)(tf.constant(X))
    strategy = IPUStrategy()
    with strategy.scope():
        found = strategy.run(tf.function(function), [tf.constant(X)])
    np.testing.assert_allclose(found, expected)


def fold(x):
    return v1.foldl(lambda total, each: total * each, x)


def count(x):
    return v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]


def mapped(x):
    return tf.map_fn(lambda each: each * each, x)


def scanned(x):
    return tf.scan(lambda total, each: total * each, x)


@pytest.mark.parametrize(
    ("build", "version"),
    [(fold, 1), (count, 1), (count, 2), (fold, 2), (mapped, 2), (scanned, 2)],
)
def test_a_graph_has_gradients_of_its_loops(build, version):
    enabled = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if version == 2 else v1.disable_control_flow_v2)()
    try:
        results = []
        for device in ("/device:CPU:0", "/device:IPU:0"):
            with tf.Graph().as_default(), v1.Session() as session:
                x = v1.placeholder(tf.float32, X.shape)
                with ipu_scope(device) if "IPU" in device else tf.device(device):
                    gradient = v1.gradients(build(x), x)[0]
                results.append(session.run(gradient, {x: X}))
    finally:
        (v1.enable_control_flow_v2 if enabled else v1.disable_control_flow_v2)()
    np.testing.assert_allclose(*results)


def test_an_average_of_a_variable_starts_with_its_value():
    """Its initial value depends on whether the variable has one."""
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            weight = v1.get_variable(
                "w", [2], initializer=tf.ones_initializer(), use_resource=True
            )
            average = tf.train.ExponentialMovingAverage(0.9)
            average.apply([weight])
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(average.average(weight)), [1, 1])


def test_an_array_that_grows_is_refused_where_it_is_compiled():
    """XLA would leave it empty; with its size it may say that it could grow."""

    def of(size, compiled):
        @tf.function(jit_compile=compiled)
        def squares(x):
            array = tf.TensorArray(tf.float32, size, dynamic_size=True)
            for i in tf.range(4):
                array = array.write(i, x * tf.cast(i, tf.float32))
            return array.stack()

        strategy = IPUStrategy()
        with strategy.scope():
            return strategy.run(squares, [tf.constant(2.0)]).numpy().tolist()

    assert of(4, True) == of(4, False) == of(0, False) == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(
        ValueError, match=r"would remain empty .* tf\.TensorArray\(dtype"
    ):
        of(0, True)
