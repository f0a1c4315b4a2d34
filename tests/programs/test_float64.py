"""A strategy's program that takes or returns float64 is refused before it runs."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.outside_compilation import outside_compilation_scope

REFUSED = "^Unsupported data type for output: float64, of value"


class Program:
    """Counts its runs in a variable, and its traces; gives one float64 of two results."""

    def __init__(self, jit=True, outside=False):
        self.runs = tf.Variable(0.0)
        self.traces = 0
        self.outside = outside
        self.function = tf.function(self.body, jit_compile=jit)

    def body(self):
        self.traces += 1
        if self.outside:
            with outside_compilation_scope():
                tf.debugging.assert_equal(1, 1)
        self.runs.assign_add(1.0)
        return {"loss": tf.constant(1.0), "more": [tf.ones([2], tf.float64)]}


@pytest.mark.parametrize("jit", [True, False, None])
def test_a_result_of_float64_is_refused_before_the_run(executor, strategy, jit):
    """Each time, with one trace: no variable has changed. The error has the remedy."""
    program = Program(jit)

    for _ in range(2):
        with pytest.raises(
            TypeError,
            match=REFUSED
            + r" 1 \(more/0\) with the shape \(2,\)\. .* must be of another "
            r"dtype\. .*tf\.cast\(value, tf\.float32\) in the function that returns it",
        ):
            strategy.run(program.function)

    assert program.runs.numpy() == 0.0
    assert program.traces == 1


def test_a_program_with_ops_of_the_host_is_refused_too(strategy):
    """It is traced again, for TensorFlow's executor."""
    program = Program(outside=True)

    with pytest.raises(TypeError, match=REFUSED):
        strategy.run(program.function)

    assert program.runs.numpy() == 0.0


def test_a_concrete_function_is_refused_with_the_same_text(strategy):
    """TensorFlow calls one again after a TypeError, and adds the second error."""
    program = Program()
    concrete = program.function.get_concrete_function()

    with pytest.raises(TypeError, match=REFUSED) as caught:
        strategy.run(concrete)

    assert str(caught.value).count("float64, of value") == 1
    assert program.runs.numpy() == 0.0


def test_slices_of_float64_are_refused_before_the_run(strategy):
    """The spec of tf.IndexedSlices has no dtype of its own."""
    runs = tf.Variable(0.0)

    @tf.function
    def program():
        runs.assign_add(1.0)
        return tf.IndexedSlices(tf.ones([1, 2], tf.float64), tf.constant([0]))

    with pytest.raises(TypeError, match=REFUSED):
        strategy.run(program)

    assert runs.numpy() == 0.0


def test_a_program_in_a_function_is_refused_at_the_trace(strategy):
    """There the results are tensors of the outer function."""
    program = Program(None)

    @tf.function
    def outer():
        return strategy.run(program.function)

    with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
        outer()

    assert program.runs.numpy() == 0.0


def test_float64_inside_a_program_is_not_refused(strategy):
    """Of a function that it calls, on the IPU, at the trace or on the host."""

    @tf.function
    def double(x):
        return tf.cast(x, tf.float64) * 2.0

    @tf.function(jit_compile=True)
    def nested(x):
        with tf.init_scope():
            factor = float(double(1.0))
        return tf.cast(double(x), tf.float32) * factor

    @tf.function
    def on_host(x):
        with tf.device("/device:CPU:0"):
            return tf.py_function(lambda y: float(double(y)), [x], tf.float32)

    assert float(strategy.run(nested, [tf.constant(1.0)])) == 4.0
    assert float(strategy.run(on_host, [tf.constant(1.0)])) == 2.0


def test_a_function_with_results_of_float64_runs_outside_of_the_strategy(strategy):
    """The check is the strategy's: a refused function is as it was."""
    program = Program(None)
    with pytest.raises(TypeError, match=REFUSED):
        strategy.run(program.function)

    assert program.function()["more"][0].dtype == tf.float64
    assert program.runs.numpy() == 1.0


@pytest.mark.parametrize("value", [tf.constant(1.0, tf.float64), np.ones(3)])
def test_an_argument_of_float64_is_refused(strategy, value):
    """NumPy makes them unasked."""
    function = tf.function(lambda x, y: x)

    with pytest.raises(
        TypeError,
        match=r"^Unsupported data type for input: float64, of value 1 \(args/1\)",
    ):
        strategy.run(function, [tf.constant(1.0), value])
