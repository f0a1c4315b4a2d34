"""What loops refuse: counts, and values that they carry."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program import loops
from ipufeed.device.program.executor import executor_scope
from ipufeed.device.program.strategy import IPUStrategy


@pytest.mark.parametrize("count", [1.5, "3", None, True])
def test_a_count_that_is_not_an_integer_is_refused(count):
    """With what it is."""
    with pytest.raises(TypeError, match="`n` must be an int, got"):
        loops.repeat(count, lambda x: x, [1.0])


def test_a_count_beyond_64_bits_is_refused():
    """Before it overflows somewhere."""
    with pytest.raises(ValueError, match="`n` must fit 64 bits"):
        loops.repeat(2**63, lambda x: x, [1.0])


def repeat(n):
    return loops.repeat(n, lambda x: x + 1.0, [0.0])


def bounded(n):
    return loops.while_loop(lambda x: True, lambda x: x + 1.0, [0.0], None, n)


@pytest.mark.parametrize(
    ("loop", "name"), [(repeat, "n"), (bounded, "maximum_iterations")]
)
def test_both_loops_take_the_same_counts(loop, name):
    """An int of at least 0, or a scalar of int32 or int64."""
    for count in (
        2,
        np.int64(2),
        np.array(2),
        tf.constant(2),
        tf.constant(2, tf.int64),
    ):
        assert loop(count).numpy() == 2.0
    with pytest.raises(ValueError, match=rf"`{name}` must be a scalar, got .* \(1,\)"):
        loop(tf.constant([2]))
    with pytest.raises(TypeError, match=f"`{name}` must be .* got a tensor of uint8"):
        loop(tf.constant(2, tf.uint8))
    with pytest.raises(ValueError, match=f"`{name}` must be at least 0, got -1"):
        loop(-1)


def run(inputs):
    program = tf.function(
        lambda: loops.repeat(2, lambda x: x, inputs), jit_compile=True
    )
    strategy = IPUStrategy()
    with strategy.scope():
        return strategy.run(program)


def test_a_float64_that_a_loop_carries_is_named_with_a_remedy():
    """NumPy makes it without being asked."""
    with pytest.raises(
        TypeError, match=r"float64, of value 0 .*\(3,\).*tf\.cast.*loop have the dtypes"
    ):
        run(np.zeros(3))


def test_a_string_that_a_compiled_loop_carries_is_refused():
    """TensorFlow's executor carries it."""
    with pytest.raises(TypeError, match="cannot carry strings, got one as input 1"):
        run([1.0, "abc"])
    with executor_scope("tensorflow"):
        assert run(["abc"]).numpy() == b"abc"


def test_a_condition_of_several_values_is_refused():
    with pytest.raises(ValueError, match=r"boolean scalar, got .* \(2,\)"):
        tf.function(
            lambda: loops.while_loop(lambda x: x < [1.0, 2.0], lambda x: x, [0.0])
        )()
