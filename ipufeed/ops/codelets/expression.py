"""codelet_expression_op: an elementwise function that is written as an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.ops.codelets import vertex_edsl as edsl

# TensorFlow's dtypes, and the types of expressions.
_TYPES: dict[Any, Callable[[], edsl.Type]] = {
    tf.float16: edsl.Float16,
    tf.float32: edsl.Float32,
    tf.int16: edsl.Int16,
    tf.int32: edsl.Int32,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": tf.add,
    "-": tf.subtract,
    "*": tf.multiply,
    "<": tf.less,
    "<=": tf.less_equal,
    ">": tf.greater,
    ">=": tf.greater_equal,
    "==": tf.equal,
    "!=": tf.not_equal,
    "max": tf.maximum,
    "min": tf.minimum,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "+": tf.identity,
    "-": tf.negative,
    "~": tf.negative,
    "abs": tf.abs,
}


def codelet_expression_op(vertex_expression: Callable[..., Any], *args: Any) -> Any:
    """Computes an elementwise function that is written as an expression.

        codelet_expression_op(lambda x, y: x * 2 - abs(y), x, y)

    Args:
        vertex_expression: Takes an expression of vertex_edsl for each argument, and gives
            one: `+ - *`, `abs`, `-x`, `~x` (the negation), numbers, `let` and `condition`.
        *args: Tensors of float16, float32, int16 or int32, whose shapes broadcast as
            NumPy's do; at least one.

    Returns:
        A tensor of the broadcast shape, in the dtype of the first argument. Within the
        expression numbers of different types become those of the wider one, as in C++.
        It has the gradient of the expression, where the original has none.

    Raises:
        TypeError: `vertex_expression` is not a function, or an argument's dtype is another
            one.
        ValueError: There is no argument, or the shapes do not broadcast.
        NotImplementedError: The expression has what is not known here.

    Source: Graphcore's function of this name, which compiles a codelet.
    """
    if not callable(vertex_expression):
        raise TypeError(
            "`vertex_expression` must be a function, got "
            f"{type(vertex_expression).__name__}."
        )
    if not args:
        raise ValueError(
            "codelet_expression_op needs at least one tensor: its dtype is the result's."
        )
    tensors = [tf.convert_to_tensor(each) for each in args]
    for index, tensor in enumerate(tensors):
        if tensor.dtype not in _TYPES:
            raise TypeError(
                f"Argument {index} must be of float16, float32, int16 or int32, got "
                f"{tensor.dtype.name}."
            )
    placeholders = [
        edsl.PlaceholderVertexExpr(f"x{index}", _TYPES[tensor.dtype]())
        for index, tensor in enumerate(tensors)
    ]
    expression = edsl.as_expression(vertex_expression(*placeholders))
    values = dict(zip(map(id, placeholders), tensors, strict=True))
    result = tf.cast(evaluate(expression, values), tensors[0].dtype)
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        shape = tf.broadcast_static_shape(shape, tensor.shape)
    return tf.broadcast_to(result, shape) if shape.is_fully_defined() else result


def evaluate(expression: edsl.VertexExpression, values: dict[int, Any]) -> Any:
    """The value of an expression, as a tensor.

    Args:
        expression: The expression.
        values: The tensors, by the id of the placeholder that stands for each.

    Raises:
        NotImplementedError: It has an operator or a placeholder that is not known.
    """
    match expression:
        case edsl.ConstantVertexExpr():
            is_int = isinstance(expression.val, int)
            return tf.constant(expression.val, tf.int32 if is_int else tf.float32)
        case edsl.PlaceholderVertexExpr():
            if id(expression) not in values:
                raise NotImplementedError(
                    f"The expression uses {expression.name}, which is not its argument."
                )
            return values[id(expression)]
        case edsl.BinaryExpr() | edsl.BinaryFunctionExpr():
            operator = known(_BINARY, expression.op)
            left, right = (
                evaluate(each, values) for each in (expression.lhs, expression.rhs)
            )
            return number(operator(*widened(left, right)))
        case edsl.UnaryFunctionExpr():
            operator = known(_UNARY, expression.op)
            return operator(evaluate(expression.lhs, values))
        case edsl.LetVertexExpr():
            value = evaluate(expression.expr, values)
            return evaluate(expression.body, {**values, id(expression.argument): value})
        case edsl.Conditional():
            pred, a, b = (
                evaluate(each, values)
                for each in (expression.pred, expression.a, expression.b)
            )
            return tf.where(tf.not_equal(pred, 0), *widened(a, b))
    raise NotImplementedError(
        f"A {type(expression).__name__} cannot be computed: use the expressions of "
        "vertex_edsl."
    )


def known(table: dict[str, Any], op: str) -> Any:
    """The operation of a name; raises NotImplementedError."""
    if op not in table:
        raise NotImplementedError(
            f"The operator {op!r} is not known here. There are: {', '.join(table)}."
        )
    return table[op]


def number(value: Any) -> Any:
    """A comparison's result as 0 or 1, as in C++."""
    return tf.cast(value, tf.int32) if value.dtype == tf.bool else value


def widened(left: Any, right: Any) -> tuple[Any, Any]:
    """Two tensors in the wider one of their types: floating point before integers."""
    order = [tf.int16, tf.int32, tf.float16, tf.float32]
    wider = max(left.dtype, right.dtype, key=order.index)
    return tf.cast(left, wider), tf.cast(right, wider)
