"""Gradients of loops, for which XLA needs the largest number of iterations."""

import pytest
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ipufeed import ipu_compiler
from ipufeed.device.program import loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.embedding_ops import embedding_lookup
from ipufeed.queues.xla_errors import explain_xla

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def strategy():
    return IPUStrategy()


def run(strategy, function, *arguments):
    program = tf.function(function, jit_compile=True, autograph=False)
    with strategy.scope():
        return strategy.run(program, arguments)


def power(x, n, nested=False):
    if nested:
        return loops.repeat(2, lambda y: loops.repeat(n, lambda z: z * x, [y]), [x])
    return loops.repeat(n, lambda y: y * x, [x])


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("nested", [False, True])
def test_tf_gradients_in_a_function(strategy, n, nested):
    """No tape announces them: the loop has been built without a bound."""

    def gradient(x):
        return tf.gradients(power(x, n, nested), x)[0]

    exponent = 1 + n * (2 if nested else 1)
    found = run(strategy, gradient, tf.constant(1.5))
    assert found.numpy() == pytest.approx(exponent * 1.5 ** (exponent - 1))


def test_gradients_of_gradients(strategy):
    def second(x):
        (first,) = tf.gradients(power(x, 3), x)
        return tf.gradients(first, x)[0]

    assert run(strategy, second, tf.constant(1.5)).numpy() == pytest.approx(12 * 2.25)


def test_a_version_1_optimizer_in_a_loop_of_steps(strategy):
    with strategy.scope():
        weight = tf.Variable(2.0)

    def step():
        loss = loops.repeat(2, lambda y: y * weight, [weight])
        return v1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=[weight])

    run(strategy, lambda: loops.repeat(2, step, []))
    expected = 2.0
    for _ in range(2):
        expected -= 0.01 * 3 * expected**2
    assert weight.numpy() == pytest.approx(expected)


@pytest.mark.parametrize("n", [0, 3])
def test_a_tape(strategy, n):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = power(x, n)
        return tape.gradient(y, x)

    found = run(strategy, gradient, tf.constant(1.5))
    assert found.numpy() == pytest.approx((1 + n) * 1.5**n)


def test_a_tensor_as_the_number_is_an_error_with_the_remedy(strategy):
    def gradient(x, n):
        return tf.gradients(power(x, n), x)[0]

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`n` of loops\.repeat"):
        run(strategy, gradient, tf.constant(1.5), tf.constant(3))


@pytest.mark.parametrize("lookup", [tf.gather, embedding_lookup])
def test_a_gather_in_a_loop_of_version_1_is_an_error_with_the_remedy(
    lookup, monkeypatch
):
    """The slices of its gradient grow in each iteration; the remedy's are dense."""
    monkeypatch.setattr(control_flow_util, "ENABLE_CONTROL_FLOW_V2", False)

    def gradient():
        start = v1.ones_initializer()
        table = v1.get_variable("table", [3, 2], initializer=start, use_resource=True)

        def add(i, y):
            return i + 1, y + tf.reduce_sum(lookup(table, [0, 2]))

        loop = tf.while_loop(lambda i, _: i < 4, add, (0, 0.0), maximum_iterations=4)
        return tf.convert_to_tensor(tf.gradients(loop[1], table)[0])

    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(gradient)
        session.run(v1.global_variables_initializer())
        if lookup is embedding_lookup:
            (found,) = session.run(result)
            assert found.tolist() == [[4.0] * 2, [0.0] * 2, [4.0] * 2]
            return
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"embedding_ops\.embedding_lookup"
        ):
            session.run(result)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_loop_whose_tensor_grows_is_an_error_with_the_remedy(compiled):
    def grow(x):
        return tf.while_loop(
            lambda y: tf.size(y) < 5,
            lambda y: (tf.concat([y, y[:1]], 0),),
            (x,),
            shape_invariants=(tf.TensorShape([None]),),
        )[0]

    program = tf.function(grow, jit_compile=compiled)
    with (
        ipu_scope("/device:IPU:0"),
        pytest.raises(
            tf.errors.OpError, match=r"tf\.TensorArray with a constant `size`"
        ),
    ):
        program(tf.constant([1.0]))


def test_log_lines_of_other_programs_choose_no_remedy():
    """TensorFlow adds lines of the log to the message of some errors."""
    error = tf.errors.InvalidArgumentError(
        None,
        None,
        "Input and output shapes of loop body do not match: s32[1] vs. s32[3]\n"
        "\t [[{{node gradients/b_count_2}}]]\n0 derived errors ignored.\n"
        "Recent warning and error logs:\n"
        "  XLA compilation requires a fixed tensor list size.",
    )
    explain_xla(error)
    assert "embedding_ops.embedding_lookup" in error.message
    assert "loops.repeat" not in error.message


def test_without_gradients_the_number_is_not_in_the_program(strategy, caplog):
    """Another number finds the compiled program."""
    caplog.set_level("INFO", "ipufeed")
    for n in (3, 4):
        found = run(strategy, lambda x, n=n: power(x, n) + 17.0, tf.constant(1.5))
        assert found.numpy() == pytest.approx(1.5 ** (n + 1) + 17)
    assert caplog.text.count("Compiled") == 1
