"""The recomputation of tf.recompute_grad has the random numbers of the forward."""

import contextlib
import functools

import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import run_python

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.compiler import compile  # noqa: A004 - Graphcore's name
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system.seeds import reset_ipu_seed
from ipufeed.ops.rand_ops import dropout
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
ONES = np.ones([400], np.float32)
RANDOM = {
    "ours": dropout,
    "TensorFlow's": lambda x: tf.nn.dropout(x, 0.5),
    "numbers": lambda x: x * tf.round(tf.random.uniform([400])),
}


def with_gradient(function):
    """The result of a function at x, and the gradient of its sum.

    Where the mask is one, y = (mask * x)^2 has the gradient 2 * y / x.
    """
    x = tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x)


def assert_one_mask(y, gradient):
    y, gradient = np.asarray(y), np.asarray(gradient)
    assert 0 < np.count_nonzero(y) < y.size
    np.testing.assert_allclose(gradient, 2 * y, rtol=1e-5)


def squared(drop):
    return tf.recompute_grad(lambda x: tf.square(drop(x)))


@pytest.mark.parametrize("jit", [True, None])
@pytest.mark.parametrize("name", RANDOM)
def test_a_program_of_an_ipu_has_one_mask(name, jit):
    """Of the operations whose seeds are those of the device."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = IPUStrategy()
    drop = RANDOM[name]
    program = tf.function(lambda: with_gradient(squared(drop)), jit_compile=jit)
    with strategy.scope():
        found = [strategy.run(program) for _ in range(2)]
    for each in found:
        assert_one_mask(*each)
    assert not np.array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize("jit", ["eager", True, None])
def test_dropout_has_one_mask_on_the_host(jit):
    """Eagerly and in functions; each call has its own."""
    function = squared(dropout)

    def program():
        return with_gradient(function), with_gradient(function)

    run = program if jit == "eager" else tf.function(program, jit_compile=jit)
    one, two = run()
    assert_one_mask(*one)
    assert_one_mask(*two)
    assert not np.array_equal(one[0], two[0])


def test_a_gradient_outside_of_a_function_has_its_mask():
    """Its backward function gets the seed as an input."""
    function = tf.function(squared(dropout))
    assert_one_mask(*with_gradient(function))


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_each_iteration_has_its_mask(style):
    """In loops of both styles, with tf.gradients."""
    outfeed = IPUOutfeedQueue()

    def body(x):
        y = squared(dropout)(x)
        (gradient,) = tf.gradients(y, x)
        return x, outfeed.enqueue([y, gradient])

    style.run(lambda: style.repeat(3, body, [tf.constant(ONES)]))
    results, gradients = style.read(outfeed.dequeue())
    for step in range(3):
        assert_one_mask(results[step], gradients[step])
    assert len({each.tobytes() for each in np.asarray(results)}) == 3


def by_gradients(y, x, weights):
    """TensorFlow 2's function, which places each gradient with its op."""
    return tf.gradients(y, x)[0]


def by_minimize(y, x, weights):
    """The gradient is what the update has subtracted from the weights."""
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    update = optimizer.minimize(y, colocate_gradients_with_ops=True)
    with tf.control_dependencies([update]):
        return ONES - weights.read_value()


@pytest.mark.parametrize("place", ["around", "inside", "no compile"])
@pytest.mark.parametrize("gradient_of", [by_gradients, by_minimize])
def test_a_gradient_colocated_with_its_op_has_the_mask_and_the_seed(gradient_of, place):
    """Then it has no device of a scope; other ops have none until `compile` places them."""
    scope = functools.partial(ipu_scope, "/device:IPU:0")
    around = contextlib.nullcontext() if place == "inside" else scope()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:

        def net():
            weights = tf.compat.v1.get_variable(
                "w", initializer=ONES, use_resource=True
            )
            x = weights * 1.0
            y = squared(lambda x: tf.nn.dropout(x, 0.5))(x)
            with scope():
                y = tf.identity(y)
            return y, gradient_of(y, x, weights)

        with around:
            program = net() if place == "no compile" else compile(net, [])
        found = []
        for _ in range(2):
            reset_ipu_seed(7)
            session.run(tf.compat.v1.global_variables_initializer())
            found.append(session.run(program))
    for each in found:
        assert_one_mask(*each)
    assert np.array_equal(found[0][0], found[1][0])


def nested(drop):
    return tf.recompute_grad(lambda x: squared(drop)(x) * tf.round(drop(x) / 2))


@pytest.mark.parametrize("style", ["eager", "function", "version 1"])
@pytest.mark.parametrize("function", [squared, nested])
def test_a_gradient_outside_of_the_scope_has_the_mask(function, style):
    """TensorFlow's dropout of the IPU, computed again on the host."""
    dropped = function(lambda x: tf.nn.dropout(x, 0.5))

    def placed(x):
        with tf.device("/device:IPU:0"):
            return dropped(x)

    if style == "version 1":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.constant(ONES)
            y = placed(x)
            found = session.run([y, tf.compat.v1.gradients(y, x)[0]])
    else:
        run = tf.function(with_gradient) if style == "function" else with_gradient
        found = run(placed)
    assert_one_mask(*found)


def test_a_function_in_another_has_one_mask():
    """The outer recomputation computes the inner function again, and its gradient."""
    inner = squared(dropout)
    outer = tf.recompute_grad(lambda x: inner(x) * 1.0)
    for run in (with_gradient, tf.function(with_gradient, jit_compile=True)):
        assert_one_mask(*run(outer))


def test_several_seeds_are_in_order():
    """For each gradient of a tape that has several."""

    @tf.recompute_grad
    def two(x):
        return tf.square(tf.concat([dropout(x), dropout(x, 0.1)], 0))

    x = tf.constant(ONES)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = two(x)
    halves = tf.split(y, 2)
    for _ in range(2):
        gradient = tape.gradient(y, x)
        np.testing.assert_allclose(gradient, 2 * (halves[0] + halves[1]), rtol=1e-5)


def test_a_function_keeps_its_attributes_and_arguments():
    """As with TensorFlow's own."""

    def scaled(x, *, factor):
        """Doc."""
        return dropout(x) * factor

    function = tf.recompute_grad(scaled)
    assert function.__wrapped__ is scaled
    assert (function.__name__, function.__doc__) == ("scaled", "Doc.")
    assert tf.reduce_max(function(ONES, factor=3.0)) == 6.0


@pytest.mark.process
@pytest.mark.parametrize("first", ["tensorflow.compat.v1", "tensorflow", "ipufeed"])
def test_each_name_of_the_function_is_changed(first):
    """Whichever module is imported first: it names the others."""
    ended = run_python(
        f"import {first}, ipufeed, tensorflow as tf\n"
        "from tensorflow.python.ops import custom_gradient\n"
        "from ipufeed.device.random import recomputed\n"
        "for each in (tf, tf.compat.v1, tf.compat.v2, custom_gradient):\n"
        "    code = each.recompute_grad.__code__\n"
        "    assert code.co_filename == recomputed.__file__, each\n"
    )
    assert ended.returncode == 0, ended.stderr


def test_a_variable_gets_its_gradient():
    """With the mask of the forward."""
    weights = tf.Variable(ONES)
    function = tf.recompute_grad(lambda x: dropout(weights) * x)
    with tf.GradientTape() as tape:
        y = function(ONES)
    np.testing.assert_array_equal(tape.gradient(y, weights), y)


@pytest.mark.parametrize(
    "inside",
    [
        lambda x: tf.while_loop(lambda x: x[0] < 0, lambda x: [dropout(x)], [x])[0],
        lambda x: tf.cond(x[0] > 0, lambda: dropout(x), lambda: x),
        tf.function(lambda x: dropout(x)),
    ],
    ids=["a loop", "a condition", "a function"],
)
def test_a_seed_of_an_inner_graph_is_refused(inside):
    """It has no one value that could be kept; the message has the remedies."""
    words = (
        "a condition or a tf.function inside of tf.recompute_grad .* Give it a `seed`"
    )
    function = tf.recompute_grad(inside)
    with pytest.raises(ValueError, match=words):
        tf.function(function)(ONES)


def test_a_recomputation_with_more_seeds_is_refused():
    """There is none to keep for it."""
    calls = []

    @tf.recompute_grad
    def growing(x):
        calls.append(x)
        for _ in calls:
            x = dropout(x)
        return x

    with pytest.raises(ValueError, match="it had 1, and draws another one"):
        with_gradient(growing)
