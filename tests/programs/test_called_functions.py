"""Version 1 graphs on an IPU whose model calls functions of TensorFlow 2."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import IPUInfeedQueue, ipu_compiler
from ipufeed.device import set_executor
from ipufeed.device.program.scopes import ipu_scope

v1 = tf.compat.v1
ON_IPU = "/device:IPU:0"
OPTIMIZERS = {
    "SGD": lambda: v1.train.GradientDescentOptimizer(0.1),
    "Adam": lambda: v1.train.AdamOptimizer(0.1),
}


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """Each test has a device of its own."""


@pytest.fixture(params=["xla", "tensorflow"])
def executor(request):
    """Either executor, for the programs of a test."""
    set_executor(request.param)
    yield request.param
    set_executor("xla")


@tf.function
def doubled(x):
    return 2.0 * x


@tf.function
def quadrupled(x):
    return doubled(doubled(x))


def in_a_loop(x):
    return v1.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, doubled(y)), [0, x])[
        1
    ]


def train(model, optimizer, scope):
    """The losses and the weights of three steps."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2])
        with scope:
            w = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
            loss = tf.reduce_sum(tf.square(model(x * w)))
            step = optimizer().minimize(loss)
        session.run(v1.global_variables_initializer())
        losses = [session.run([loss, step], {x: [1.0, 0.5]})[0] for _ in range(3)]
        return losses, session.run(w)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [doubled, quadrupled, in_a_loop])
def test_a_model_with_functions_trains_as_on_the_cpu(executor, model, optimizer):
    """TensorFlow must not inline them: it would place the variables on the CPU then."""
    if isinstance(model, type(doubled)):
        model = tf.function(model.python_function)  # traced in the graph of the test
    made = OPTIMIZERS[optimizer]
    expected, weights = train(model, made, contextlib.nullcontext())
    found, trained = train(model, made, ipu_scope(ON_IPU))

    np.testing.assert_allclose(found, expected, 1e-5)
    np.testing.assert_allclose(trained, weights, 1e-5)


def test_a_function_of_the_host_next_to_a_model(executor):
    """It is not inlined either, which would place the graph again."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2])
        with ipu_scope(ON_IPU):
            w = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
            step = OPTIMIZERS["SGD"]().minimize(
                tf.reduce_sum(w * doubled.python_function(x))
            )
        host = quadrupled(x)
        session.run(v1.global_variables_initializer())
        _, found = session.run([step, host], {x: [1.0, 0.5]})
        assert found.tolist() == [4.0, 2.0]
        np.testing.assert_allclose(session.run(w), [0.8, 1.9], 1e-6)


def losses_of_a_queue(nested, host):
    """Three steps with a function that dequeues and reads what the optimizer updates."""
    with tf.Graph().as_default(), v1.Session() as session:
        numbers = tf.data.Dataset.range(8, output_type=tf.float32)
        queue = IPUInfeedQueue(numbers.batch(2, drop_remainder=True))
        with ipu_scope(ON_IPU):
            w = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)

        def loss_of_an_element():
            x = queue._dequeue()
            if host:
                x += tf.strings.to_number(tf.strings.as_string(x)) - x
            return tf.reduce_sum(tf.square(x * w - 1.0))

        model = tf.function(loss_of_an_element)

        def net():
            loss = tf.function(lambda: model())() if nested else model()
            step = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
            with tf.control_dependencies([step]):
                return tf.identity(loss)

        with ipu_scope(ON_IPU):
            fetched = net() if host else ipu_compiler.compile(net, [])
        session.run([v1.global_variables_initializer(), queue.initializer])
        return [float(np.squeeze(session.run(fetched))) for _ in range(3)]


@pytest.mark.parametrize("host", [False, True], ids=["compile", "strings"])
@pytest.mark.parametrize("nested", [False, True], ids=["one", "nested"])
def test_a_function_with_a_queue_reads_what_an_optimizer_updates(
    executor, nested, host
):
    """It is inlined before its graph is placed, so that the variables are found."""
    w, velocity, expected = np.array([1.0, 2.0]), np.zeros(2), []
    for x in np.arange(6.0).reshape(3, 2):
        expected.append(np.sum((x * w - 1) ** 2))
        velocity = 0.9 * velocity + 2 * x * (x * w - 1)
        w = w - 0.01 * velocity

    np.testing.assert_allclose(losses_of_a_queue(nested, host), expected, 1e-5)


def test_a_loop_calls_a_function_with_a_queue(executor):
    """TensorFlow's executor takes the loop apart before the call is inlined."""
    with tf.Graph().as_default(), v1.Session() as session:
        queue = IPUInfeedQueue(tf.data.Dataset.range(6, output_type=tf.float32))
        with ipu_scope(ON_IPU):
            w = v1.get_variable("w", initializer=[1.0, 1.0], use_resource=True)
            model = tf.function(lambda: tf.reduce_sum(w) * queue._dequeue())
            _, total = v1.while_loop(
                lambda i, _: i < 3,
                lambda i, x: (i + 1, x + model()),
                [0, 0.0],
                parallel_iterations=1,  # nothing else orders those of the executor
            )
        session.run([v1.global_variables_initializer(), queue.initializer])
        assert [session.run(total) for _ in range(2)] == [6.0, 24.0]
