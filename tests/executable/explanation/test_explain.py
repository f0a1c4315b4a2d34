"""The explanation of programs whose difference is known."""

import numpy as np
import pytest
import tensorflow as tf
from explained_programs import ones, scaled, sentences

from ipufeed.executable.explanation.explain import SAME, explain_programs


def test_equal_programs_are_called_the_same(lower):
    """Two traces of one function have nothing to explain."""
    one, other = lower(scaled(0.5), ones(4, 3)), lower(scaled(0.5), ones(4, 3))

    assert sentences(one, other) == [SAME]


def test_a_batch_size_is_named_once_and_its_consequences_are_counted(lower):
    """The reader sees the argument, not the twenty shapes that follow from it."""
    before, after = (lower(scaled(0.5), ones(n, 28, 28)) for n in (32, 64))

    reported, consequences = explain_programs(before, after)

    assert str(reported).startswith(
        "argument `images` changed shape [32,28,28] -> [64,28,28] (batch size)"
    )
    assert reported.kind == "argument"
    assert (reported.before, reported.after) == ([32, 28, 28], [64, 28, 28])
    assert consequences.kind == "consequences"
    assert consequences.after > 10


def test_a_batch_size_of_several_arguments_is_one_cause(lower):
    """Images and labels change together, and are one sentence."""

    def net(images, labels):
        return tf.reduce_sum(images) + tf.reduce_sum(labels)

    before, after = (lower(net, ones(n, 28), ones(n)) for n in (32, 64))

    causes = explain_programs(before, after)

    assert len([each for each in causes if each.kind != "consequences"]) == 1
    assert "and so did argument `labels`" in str(causes[0])


def test_a_shape_that_is_not_a_batch_is_not_called_one(lower):
    """Another width is a shape, and no batch size."""
    before, after = (lower(scaled(0.5), ones(4, n)) for n in (28, 30))

    assert sentences(before, after)[0] == (
        "argument `images` changed shape [4,28] -> [4,30]"
    )


def test_a_baked_in_constant_is_named_with_its_op(lower):
    """Value before, value after, where it is, and what to do."""
    before, after = (lower(scaled(factor), ones(4, 3)) for factor in (0.5, 0.7))

    assert sentences(before, after) == [
        "constant 0.5 -> 0.7 baked into `mul_1`: pass it as an input"
    ]


def test_a_constant_is_found_next_to_a_batch_size(lower):
    """One cause does not hide the other, and the mean's divisor is none."""
    before, after = lower(scaled(0.5), ones(8, 3)), lower(scaled(0.7), ones(16, 3))

    causes = explain_programs(before, after)

    assert [each.kind for each in causes] == ["argument", "constant", "consequences"]


def test_an_array_shows_how_many_values_differ_and_the_first(lower):
    """A table that is baked in is not printed, but located."""

    def table(value):
        return lambda x: x + np.array([1, value, 3], np.float32)

    before, after = lower(table(2), ones(3)), lower(table(5), ones(3))

    assert "1 of 3 values of [3] differ, first [1]: 2.0 -> 5.0" in str(
        explain_programs(before, after)[0]
    )


def test_frozen_weights_are_called_weights(lower):
    """A frozen layer is one cause, with the advice that helps."""

    def layer(seed):
        random = np.random.default_rng(seed)
        weights = random.normal(size=(28, 10)).astype(np.float32)
        bias = random.normal(size=10).astype(np.float32)
        return lambda x: x @ weights + bias

    before, after = lower(layer(0), ones(4, 28)), lower(layer(1), ones(4, 28))

    (cause,) = explain_programs(before, after)

    assert cause.kind == "weights"
    assert str(cause).startswith(
        "weights are constants: 2 arrays of 290 values changed"
    )
    assert str(cause).endswith("keep them as variables or inputs")


def test_a_dtype_is_named_as_numpy_does(lower):
    """float32, not f32."""
    before, after = (
        lower(lambda x: x * 2, ones(4, dtype=dtype))
        for dtype in (np.float32, np.float16)
    )

    assert sentences(before, after)[0].startswith(
        "argument `x` changed dtype float32 -> float16"
    )


def test_a_dtype_within_the_program_is_found_where_it_begins(lower):
    """The cast is the cause, what it is multiplied with is not."""

    def through(dtype):
        return lambda x: tf.cast(tf.cast(x, dtype) * 2, tf.float32)

    before, after = (
        lower(through(tf.float16), ones(4)),
        lower(through(tf.bfloat16), ones(4)),
    )

    causes = explain_programs(before, after)

    assert [each.kind for each in causes] == ["dtype", "consequences"]
    assert str(causes[0]) == "`Cast` changed dtype float16 -> bfloat16"


def test_swapped_operands_are_called_swapped(lower):
    """A - b is not b - a, for values that are computed, too."""
    before = lower(lambda a, b: tf.exp(a) - tf.sin(b), ones(4), ones(4))

    def swapped(a, b):
        first = tf.exp(a)
        return tf.sin(b) - first

    assert sentences(before, lower(swapped, ones(4), ones(4))) == [
        "operands of `sub` are swapped"
    ]


def test_another_operand_is_named(lower):
    """X + z in place of x + y."""
    before = lower(lambda x, y, z: x + y, *[ones(4)] * 3)
    after = lower(lambda x, y, z: x + z, *[ones(4)] * 3)

    assert sentences(before, after) == [
        "`add` takes other operands: argument `z` in place of argument `y`"
    ]


@pytest.mark.parametrize(
    ("net", "text"),
    [
        (lambda x: tf.nn.relu(x * 2.0), "op `Relu` (Relu) is new"),
        (lambda x: x, "op `mul` (Mul) is gone"),
        (lambda x: x / 2.0, "`truediv` (RealDiv) is in place of `mul` (Mul)"),
    ],
    ids=["new", "gone", "replaced"],
)
def test_ops_that_come_and_go_are_named(lower, net, text):
    """By op name and type, as the program's author knows them."""
    before = lower(lambda x: x * 2.0, ones(4))

    assert text in sentences(before, lower(net, ones(4)))


def test_the_limit_of_a_loop_is_called_that(lower):
    """A constant that a condition compares with is a number of iterations."""

    def loop(limit):
        def net(x):
            return tf.while_loop(
                lambda i, y: i < limit, lambda i, y: (i + 1, y * 1.5 + x), [0, x]
            )[1]

        return net

    (cause,) = explain_programs(lower(loop(10), ones(4)), lower(loop(20), ones(4)))

    assert cause.kind == "loop count"
    assert (cause.before, cause.after) == (10, 20)


def test_an_attribute_is_named(lower):
    """The same op on another axis."""
    before, after = (
        lower(lambda x, axis=axis: tf.reduce_sum(x, axis), ones(4, 4))
        for axis in (0, 1)
    )

    assert sentences(before, after) == ["`Sum` changed its dimensions [0] -> [1]"]


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (
            lambda x: x[:, 1:4] * 2.0,
            lambda x: x[:, 2:7] * 2.0,
            "`strided_slice` changed its slice dimensions[1] start 1 -> 2",
        ),
        (
            lambda x: tf.reduce_sum(x, axis=0) * 2.0,
            lambda x: tf.reduce_sum(x, axis=1) * 2.0,
            "`Sum` changed its dimensions [0] -> [1]",
        ),
    ],
    ids=["slice", "axis"],
)
def test_an_attribute_comes_before_the_shape_that_follows(lower, one, other, text):
    """What was written is listed with its values, and not what became of it."""
    reported = sentences(lower(one, ones(8, 12)), lower(other, ones(8, 12)))

    assert reported[0].startswith(text), reported


def test_an_argument_that_xla_must_know_is_named(lower):
    """Its value is compiled in; the advice is not to make it an input, which it is."""

    def net(x, steps):
        return tf.while_loop(
            lambda n, _: n < tf.size(tf.range(steps)),
            lambda n, x: (n + 1, tf.sin(x)),
            [0, x],
        )[1]

    one, other = (lower(net, ones(4), np.int32(n)) for n in (3, 5))

    assert one.baked == ("steps",)
    reported = sentences(one, other)
    assert any("value of `steps`: XLA must know it" in each for each in reported), (
        reported
    )
    assert not any("pass it as an input" in each for each in reported), reported


def test_a_shape_without_an_argument_is_found_where_it_begins(lower):
    """tf.zeros of another size."""

    def padded(rows):
        return lambda x: tf.zeros([rows, 10]) + x

    before, after = lower(padded(5), np.float32(1)), lower(padded(6), np.float32(1))

    assert sentences(before, after)[0] == "`zeros` changed shape [5,10] -> [6,10]"
