"""vertex_edsl: expressions of one element, for codelet_expression_op.

    x * 2 + abs(y)  -->  BinaryExpr("+", BinaryExpr("*", x, 2), UnaryFunctionExpr("abs", y))

Source: Graphcore's module of this name. Its `let` and `condition` raise; these work.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from typing import Any


class BaseType(enum.IntEnum):
    """The kinds of values."""

    Unknown = 0
    Int16 = 1
    Int32 = 2
    Float16 = 3
    Float32 = 4
    Sequence = 5


class Type:
    """The type of an expression.

    Args:
        type: Its kind.
    """

    def __init__(self, type: BaseType) -> None:  # noqa: A002 - Graphcore's name
        self._type = BaseType(type)

    def getType(self) -> BaseType:  # noqa: N802 - Graphcore's name
        """Returns its BaseType."""
        return self._type

    def getElementType(self) -> Type:  # noqa: N802
        """Returns the type of a sequence's elements, else the type itself."""
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type):
            return NotImplemented
        own, others = self.getElementType(), other.getElementType()
        return self._type == other._type and own._type == others._type

    def __hash__(self) -> int:
        return hash((self._type, self.getElementType()._type))

    def __repr__(self) -> str:
        return self._type.name


class Unknown(Type):
    """A type that is not known."""

    def __init__(self) -> None:
        super().__init__(BaseType.Unknown)


class Int16(Type):
    """Integers of 16 bits."""

    def __init__(self) -> None:
        super().__init__(BaseType.Int16)


class Int32(Type):
    """Integers of 32 bits."""

    def __init__(self) -> None:
        super().__init__(BaseType.Int32)


class Float16(Type):
    """Floating-point numbers of 16 bits."""

    def __init__(self) -> None:
        super().__init__(BaseType.Float16)


class Float32(Type):
    """Floating-point numbers of 32 bits."""

    def __init__(self) -> None:
        super().__init__(BaseType.Float32)


class Sequence(Type):
    """A sequence of values.

    Args:
        element_type: Their type.
    """

    def __init__(self, element_type: Type) -> None:
        super().__init__(BaseType.Sequence)
        self._element_type = element_type

    def getElementType(self) -> Type:  # noqa: N802
        """Returns the type of its values."""
        return self._element_type

    def __repr__(self) -> str:
        return f"Sequence({self._element_type!r})"


class DefaultNameSource:
    """Numbers for the names of `let`: 0, 1, and so on."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def GetNextName(self) -> int:  # noqa: N802 - Graphcore's name
        """Returns the next number."""
        return next(self._numbers)


class VertexExpression:
    """An expression; `+`, `-`, `*`, `abs` and `~`, the negation, build larger ones.

    Args:
        type: The type of its value.
    """

    def __init__(self, type: Type | None = None) -> None:  # noqa: A002
        self.type = Unknown() if type is None else type

    def lower(self, source: Any = None) -> str:
        """Returns its text in C++.

        Args:
            source: A DefaultNameSource, for the names of `let`. Default: a new one.
        """
        return self._lower(DefaultNameSource() if source is None else source)

    def _lower(self, source: Any) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no text.")

    def __add__(self, other: Any) -> VertexExpression:
        return BinaryExpr("+", self, other)

    def __radd__(self, other: Any) -> VertexExpression:
        return BinaryExpr("+", other, self)

    def __sub__(self, other: Any) -> VertexExpression:
        return BinaryExpr("-", self, other)

    def __rsub__(self, other: Any) -> VertexExpression:
        return BinaryExpr("-", other, self)

    def __mul__(self, other: Any) -> VertexExpression:
        return BinaryExpr("*", self, other)

    def __rmul__(self, other: Any) -> VertexExpression:
        return BinaryExpr("*", other, self)

    def __abs__(self) -> VertexExpression:
        return UnaryFunctionExpr("abs", self)

    def __neg__(self) -> VertexExpression:
        return UnaryFunctionExpr("-", self)

    def __pos__(self) -> VertexExpression:
        return UnaryFunctionExpr("+", self)

    def __invert__(self) -> VertexExpression:
        return UnaryFunctionExpr("-", self)

    def __bool__(self) -> bool:
        raise TypeError(
            "An expression has no value while it is built: write condition(predicate, a, "
            "b) in place of Python's if, and `*` in place of `and`."
        )


def as_expression(value: Any) -> VertexExpression:
    """Returns an expression; converts a number to a constant.

    Raises:
        NotImplementedError: It is neither.
    """
    return value if isinstance(value, VertexExpression) else ConstantVertexExpr(value)


class ConstantVertexExpr(VertexExpression):
    """A number.

    Args:
        val: An int, of type Int32, or a float, of type Float32.

    Raises:
        NotImplementedError: It is neither.
    """

    def __init__(self, val: float) -> None:
        if isinstance(val, bool) or not isinstance(val, (int, float)):
            raise NotImplementedError(
                f"A constant must be an int or a float, got {type(val).__name__} {val!r}."
            )
        super().__init__(Int32() if isinstance(val, int) else Float32())
        self.val = val

    def _lower(self, source: Any) -> str:
        return str(self.val)


def constant(val: float) -> ConstantVertexExpr:
    """Returns a number as an expression; see ConstantVertexExpr."""
    return ConstantVertexExpr(val)


class PlaceholderVertexExpr(VertexExpression):
    """An argument.

    Args:
        name: Its name.
        type: Its type.
    """

    def __init__(self, name: str, type: Type) -> None:  # noqa: A002
        super().__init__(type)
        self.name = name

    def _lower(self, source: Any) -> str:
        return str(self.name)


class BinaryExpr(VertexExpression):
    """Two expressions with an operator between them.

    Args:
        op: The operator in C++.
        lhs: The left expression, or a number.
        rhs: The right expression, or a number.
    """

    def __init__(self, op: str, lhs: Any, rhs: Any) -> None:
        self.op, self.lhs, self.rhs = op, as_expression(lhs), as_expression(rhs)
        super().__init__(self.lhs.type)

    def _lower(self, source: Any) -> str:
        return f"({self.lhs.lower(source)}{self.op}{self.rhs.lower(source)})"


class BinaryFunctionExpr(VertexExpression):
    """A function of two expressions.

    Args:
        op: Its name.
        lhs: The first argument, or a number.
        rhs: The second argument, or a number.
    """

    def __init__(self, op: str, lhs: Any, rhs: Any) -> None:
        self.op, self.lhs, self.rhs = op, as_expression(lhs), as_expression(rhs)
        super().__init__(self.lhs.type)

    def _lower(self, source: Any) -> str:
        return f"({self.op}({self.lhs.lower(source)},{self.rhs.lower(source)}))"


class UnaryFunctionExpr(VertexExpression):
    """A function of an expression.

    Args:
        op: Its name, or a sign.
        lhs: The argument, or a number.
    """

    def __init__(self, op: str, lhs: Any) -> None:
        self.op, self.lhs = op, as_expression(lhs)
        super().__init__(self.lhs.type)

    def _lower(self, source: Any) -> str:
        return f"({self.op}({self.lhs.lower(source)}) )"


class LetVertexExpr(VertexExpression):
    """A value with a name, and an expression that uses it.

    Args:
        expr: The value.
        f: A function from the placeholder of the value to the expression.
    """

    def __init__(self, expr: Any, f: Callable[[VertexExpression], Any]) -> None:
        self.expr = as_expression(expr)
        self.argument = PlaceholderVertexExpr("", self.expr.type)
        self.body = as_expression(f(self.argument))
        super().__init__(self.body.type)

    def _lower(self, source: Any) -> str:
        value = self.expr.lower(source)
        self.argument.name = f"let_{source.GetNextName()}"
        body = self.body.lower(source)
        return f"([&](auto {self.argument.name}) {{ return {body}; }}({value}))"


def let(expr: Any, f: Callable[[VertexExpression], Any]) -> LetVertexExpr:
    """Computes a value once for several uses; see LetVertexExpr."""
    return LetVertexExpr(expr, f)


class Conditional(VertexExpression):
    """One of two expressions.

    Args:
        pred: The condition, true where it is not 0.
        a: The expression where it is true, or a number.
        b: The other expression, or a number.
    """

    def __init__(self, pred: Any, a: Any, b: Any) -> None:
        self.pred, self.a, self.b = map(as_expression, (pred, a, b))
        super().__init__(self.a.type)

    def _lower(self, source: Any) -> str:
        parts = [each.lower(source) for each in (self.pred, self.a, self.b)]
        return "(({}) ? ({}) : ({}))".format(*parts)


def condition(pred: Any, a: Any, b: Any) -> Conditional:
    """Selects one of two expressions by a third one; see Conditional."""
    return Conditional(pred, a, b)
