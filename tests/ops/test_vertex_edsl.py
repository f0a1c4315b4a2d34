"""Expressions of elements: their text, their values, and what they are not."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.ops.codelets import vertex_edsl as edsl
from ipufeed.ops.custom_ops import codelet_expression_op

X = np.float32([-2.0, -0.5, 0.0, 3.0])
Y = np.float32([[1.0], [-2.0]])


EXPRESSIONS = {
    "sum": (lambda x, y: x + y * 2, X + Y * 2),
    "numbers on the left": (lambda x, y: 1 - 2.5 * x + (3 + y), 1 - 2.5 * X + 3 + Y),
    "signs": (lambda x, y: abs(x) - ~y + -x - (+y), np.abs(X) + Y - X - Y),
    "constant": (lambda x, y: edsl.constant(4) * x + 0 * y, 4 * X + 0 * Y),
    "let": (lambda x, y: edsl.let(x + y, lambda z: z * z), (X + Y) ** 2),
    "let in let": (
        lambda x, y: edsl.let(x, lambda a: edsl.let(y, lambda b: a * b + a)),
        X * Y + X,
    ),
    "condition": (
        lambda x, y: edsl.condition(edsl.BinaryExpr("<", x, y), x, 7),
        np.where(X < Y, X, 7),
    ),
    "function": (lambda x, y: edsl.BinaryFunctionExpr("max", x, y), np.maximum(X, Y)),
    "only one argument": (lambda x, y: x * x, np.broadcast_to(X * X, (2, 4))),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("jit", [False, True])
def test_values_are_those_of_numpy(name, jit):
    """With broadcasting, also when it is compiled."""
    expression, wanted = EXPRESSIONS[name]
    run = tf.function(
        lambda x, y: codelet_expression_op(expression, x, y), jit_compile=jit
    )

    np.testing.assert_allclose(run(X, Y).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16", "int32"])
def test_the_result_has_the_dtype_of_the_first_argument(dtype):
    """Inside, numbers are as wide as their neighbours: 3 * 0.5 of an int is 1."""
    x = np.array([1, 2, 3], dtype)
    result = codelet_expression_op(lambda x, y: x * 0.5 + y * 0, x, np.float32([9.0]))

    assert result.dtype == dtype
    assert result.numpy().tolist() == (x * 0.5).astype(dtype).tolist()


def test_it_has_the_gradient_of_the_expression():
    """Which the original has not."""
    theory, measured = tf.test.compute_gradient(
        lambda x, y: codelet_expression_op(
            lambda x, y: edsl.let(x * y, lambda z: z * z - x), x, y
        ),
        [tf.constant(X), tf.constant(Y)],
        delta=1e-3,
    )
    for one, other in zip(theory, measured, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)


def test_the_text_is_that_of_c():
    """As the original writes it; each `let` has a name of its own."""
    x = edsl.PlaceholderVertexExpr("x", edsl.Float32())
    y = edsl.PlaceholderVertexExpr("y", edsl.Float32())
    source = edsl.DefaultNameSource()

    assert (x + y).lower(source) == "(x+y)"
    assert (x * 2 - 0.5).lower(source) == "((x*2)-0.5)"
    assert abs(x).lower(source) == "(abs(x) )"
    assert edsl.BinaryFunctionExpr("max", x, y).lower(source) == "(max(x,y))"
    assert edsl.condition(x, y, 1).lower(source) == "((x) ? (y) : (1))"
    assert edsl.let(x, lambda z: z + z).lower(source) == (
        "([&](auto let_0) { return (let_0+let_0); }(x))"
    )
    assert source.GetNextName() == 1


def test_types_describe_themselves():
    """A sequence has elements of another type."""
    assert [each.name for each in edsl.BaseType] == [
        "Unknown",
        "Int16",
        "Int32",
        "Float16",
        "Float32",
        "Sequence",
    ]
    assert edsl.Int32().getType() == edsl.BaseType.Int32 == 2
    assert edsl.Sequence(edsl.Float16()).getElementType() == edsl.Float16()
    assert edsl.Sequence(edsl.Int16()) != edsl.Sequence(edsl.Int32())
    assert edsl.constant(1).type == edsl.Int32()
    assert edsl.constant(1.0).type == edsl.Float32()
    assert edsl.VertexExpression().type == edsl.Unknown()


def test_what_is_not_an_expression():
    """Errors that say what to write."""
    with pytest.raises(NotImplementedError, match="must be an int or a float, got str"):
        edsl.constant("1")
    with pytest.raises(NotImplementedError, match="operator 'sinh' is not known here"):
        codelet_expression_op(lambda x: edsl.UnaryFunctionExpr("sinh", x), X)
    with pytest.raises(TypeError, match="write condition"):
        codelet_expression_op(lambda x: x if x else 1, X)
    with pytest.raises(
        TypeError, match="Argument 0 must be of float16, float32, int16"
    ):
        codelet_expression_op(lambda x: x, np.float64([1.0]))
    with pytest.raises(ValueError, match="at least one tensor"):
        codelet_expression_op(lambda: 1)
    with pytest.raises(TypeError, match="must be a function"):
        codelet_expression_op(1, X)
    words = "`vertex_expression` must take one .* which are 2: too many positional"
    with pytest.raises(TypeError, match=words):
        codelet_expression_op(lambda x: x, X, X)
    stranger = edsl.PlaceholderVertexExpr("z", edsl.Float32())
    with pytest.raises(NotImplementedError, match="uses z, which is not its argument"):
        codelet_expression_op(lambda x: x + stranger, X)
