"""codelet_expression_op: an elementwise function that is written as an expression."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.ops.codelets import vertex_edsl as edsl
from ipufeed.tf_types import DType, Tensor

# TensorFlow's dtypes -> the types of expressions.
_TYPES: dict[DType, Callable[[], edsl.Type]] = {
    tf.float16: edsl.Float16,
    tf.float32: edsl.Float32,
    tf.int16: edsl.Int16,
    tf.int32: edsl.Int32,
}
_BINARY: dict[str, Callable[..., Tensor]] = {
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
_UNARY: dict[str, Callable[..., Tensor]] = {
    "+": tf.identity,
    "-": tf.negative,
    "~": tf.negative,
    "abs": tf.abs,
}


def codelet_expression_op(
    vertex_expression: Callable[..., Any], *args: Tensor
) -> Tensor:
    """Computes an elementwise function that is written as an expression.

        codelet_expression_op(lambda x, y: x * 2 - abs(y), x, y)

    Args:
        vertex_expression: A function of an expression of vertex_edsl for each argument
            that returns one: `+ - *`, `abs`, `-x`, `~x` (the negation), numbers, `let`
            and `condition`.
        *args: Tensors of float16, float32, int16 or int32, whose shapes broadcast as in
            NumPy; at least one.

    Returns:
        A tensor of the broadcast shape, in the dtype of the first argument. Within the
        expression numbers of different types are converted to the wider one, as in C++.
        It has the gradient of the expression, unlike Graphcore's.

    Raises:
        TypeError: `vertex_expression` is not a function, or not of as many arguments, or
            an argument is of another dtype.
        ValueError: Arguments are missing, or their shapes do not broadcast.
        NotImplementedError: The expression contains an unknown operator.

    Source: Graphcore's function of this name, which compiles a codelet.
    """
    if not callable(vertex_expression):
        raise TypeError(
            "`vertex_expression` must be a function, got "
            f"{type(vertex_expression).__name__} {vertex_expression!r}."
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
    _check_takes(vertex_expression, placeholders)
    expression = edsl.as_expression(vertex_expression(*placeholders))
    values = dict(zip(map(id, placeholders), tensors, strict=True))
    result = tf.cast(_evaluate(expression, values), tensors[0].dtype)
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        shape = tf.broadcast_static_shape(shape, tensor.shape)
    return tf.broadcast_to(result, shape) if shape.is_fully_defined() else result


def _check_takes(
    vertex_expression: Callable[..., Any], given: list[edsl.PlaceholderVertexExpr]
) -> None:
    """Raises TypeError unless a function takes an expression for each tensor."""
    try:
        signature = inspect.signature(vertex_expression, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise TypeError(
            "`vertex_expression` must take one argument for each of the tensors after it, "
            f"which are {len(given)}: {error}."
        ) from None


def _evaluate(expression: edsl.VertexExpression, values: dict[int, Tensor]) -> Tensor:
    """Returns the value of an expression, as a tensor.

    Args:
        expression: The expression.
        values: Id of a placeholder -> its tensor.

    Raises:
        NotImplementedError: It contains an unknown operator or placeholder.
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
            operator = _known(_BINARY, expression.op)
            left, right = (
                _evaluate(each, values) for each in (expression.lhs, expression.rhs)
            )
            return _as_number(operator(*_widened(left, right)))
        case edsl.UnaryFunctionExpr():
            operator = _known(_UNARY, expression.op)
            return operator(_evaluate(expression.lhs, values))
        case edsl.LetVertexExpr():
            value = _evaluate(expression.expr, values)
            return _evaluate(
                expression.body, {**values, id(expression.argument): value}
            )
        case edsl.Conditional():
            pred, a, b = (
                _evaluate(each, values)
                for each in (expression.pred, expression.a, expression.b)
            )
            return tf.where(tf.not_equal(pred, 0), *_widened(a, b))
    raise NotImplementedError(
        f"A {type(expression).__name__} cannot be computed: use the expressions of "
        "vertex_edsl."
    )


def _known(table: dict[str, Callable[..., Tensor]], op: str) -> Callable[..., Tensor]:
    if op not in table:
        raise NotImplementedError(
            f"The operator {op!r} is not known here. There are: {', '.join(table)}."
        )
    return table[op]


def _as_number(value: Tensor) -> Tensor:
    """Converts a comparison's result to 0 or 1, as in C++."""
    return tf.cast(value, tf.int32) if value.dtype == tf.bool else value


def _widened(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Casts two tensors to the wider one of their types: floats before integers."""
    order = [tf.int16, tf.int32, tf.float16, tf.float32]
    wider = max(left.dtype, right.dtype, key=order.index)
    return tf.cast(left, wider), tf.cast(right, wider)
