"""Checks of public arguments: what must be what, and what it got.

Imports nothing that is slow: the options of commands are checked with it, too.
"""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_DIMENSIONS = 254  # of a tensor of TensorFlow


def is_flag(value: Any) -> bool:
    """Whether it is a bool, or one of NumPy's; 0 and 1 are numbers."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def check_flag(name: str, value: Any, or_none: bool = False) -> None:
    """Checks that an argument is a bool.

    Args:
        name: Of the argument, for the error.
        value: Of it.
        or_none: Whether it may be None.

    Raises:
        TypeError: It is neither.
    """
    if is_flag(value) or (or_none and value is None):
        return
    raise TypeError(
        f"{name} must be a bool{' or None' * or_none}, got {type(value).__name__} "
        f"{value!r}."
    )


def check_flags(**flags: Any) -> None:
    """Checks that arguments are bools; raises what check_flag() raises."""
    for name, value in flags.items():
        check_flag(name, value)


def flags_checked(function: Function) -> Function:
    """Decorates a function whose arguments that are annotated as bools must be bools.

    `bool` is a bool, `bool | None` one or None. Nothing of the function runs before the
    check, which raises what check_flag() raises.
    """
    code = cast(Any, function).__code__
    flags = [
        (position, name, "None" in annotation)
        for position, name in enumerate(code.co_varnames)
        for annotation in [str(function.__annotations__.get(name))]
        if annotation in ("bool", "bool | None")
    ]

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for position, name, or_none in flags:
            if name in keywords:
                check_flag(name, keywords[name], or_none)
            elif position < min(len(arguments), code.co_argcount):
                check_flag(name, arguments[position], or_none)
        return function(*arguments, **keywords)

    return cast(Function, checked)


def is_int(value: Any) -> bool:
    """Whether it is an int or an integer of NumPy's; True is not one."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def as_int(name: str, value: Any, or_else: str = "") -> int:
    """An int, or what can stand for one (a NumPy integer), as an int.

    Args:
        name: Of the argument, for the error.
        value: Of it.
        or_else: What else it may be, as " or None".

    Raises:
        TypeError: It cannot, or is a bool: True is not a count of 1.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(
        f"`{name}` must be an int{or_else}, got {type(value).__name__} {value!r}."
    )


def as_number(name: str, value: Any) -> float:
    """A number as a float; NaN and the infinite ones are numbers.

    Raises:
        TypeError: It is not a number, or is a bool.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"`{name}` must be a number, got {type(value).__name__} {value!r}."
        )
    return float(value)


def shape_with_room(shape: list[int], name: str) -> list[int]:
    """The shape, which gets one dimension more: TensorFlow ends a process at 255.

    Raises:
        ValueError: It has as many dimensions as a tensor can have.
    """
    if len(shape) >= MOST_DIMENSIONS:
        raise ValueError(
            f"`{name}` must have at most {MOST_DIMENSIONS - 1} dimensions, got "
            f"{len(shape)}. Reshape it first."
        )
    return shape


def is_within(value: float, low: float, high: float) -> bool:
    """Whether a number is finite and in [low, high]."""
    return math.isfinite(value) and low <= value <= high
