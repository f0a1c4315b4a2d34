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
    with pytest.raises(
        TypeError, match="`n` must be an int, or a scalar tensor of int32 or int64, got"
    ):
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


@pytest.mark.parametrize("count", [1.5, "3", "a", True, [3]])
@pytest.mark.parametrize(
    ("loop", "name"), [(repeat, "n"), (bounded, "maximum_iterations")]
)
def test_a_graph_refuses_the_same_counts(loop, name, count):
    """Also what Python's int() would take, or would refuse with words of its own."""
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match=f"`{name}` must be an int, or .*, got"),
    ):
        loop(count)


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


@pytest.mark.parametrize(
    ("condition", "got"),
    [(lambda x: x, "a tensor of float32"), (lambda x: None, "None")],
)
def test_a_condition_that_is_not_a_boolean_is_refused(condition, got):
    """When the loop is built, and not by XLA, which does not know where it is from."""
    with pytest.raises(TypeError, match=f"must return a boolean scalar, got {got}"):
        tf.function(lambda: loops.while_loop(condition, lambda x: x, [0.0]))()


@pytest.mark.parametrize("use_while_v1", [True, False], ids=["v1", "v2"])
@pytest.mark.parametrize("kind", ["graph", "function"])
def test_a_body_that_changes_a_shape_is_refused(kind, use_while_v1):
    """TensorFlow's own error is about an argument that `repeat` does not have."""

    def program():
        loops.repeat(
            2,
            lambda x, y: (x, tf.stack([y, y])),
            [1.0, 2.0],
            use_while_v1=use_while_v1,
        )

    words = r"inputs\[1\] has the shape \(\), and the body returns \(2,\) for it"
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        program() if kind == "graph" else tf.function(program)()


def test_a_shape_that_is_defined_in_the_body_is_carried():
    """The first one may be less defined, as in TensorFlow's loops."""

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def program(x):
        return loops.repeat(2, lambda x: tf.ensure_shape(x, [3]) + 1.0, [x])

    assert program([1.0, 2.0, 3.0]).numpy().tolist() == [3.0, 4.0, 5.0]


def test_a_value_that_no_loop_carries_is_named():
    with pytest.raises(
        ValueError, match=r"`inputs\[1\]` must be a tensor, .* got None"
    ):
        loops.repeat(2, lambda x, y: (x, y), [1.0, None])
