"""Checks of public arguments: what must be what, and what it got.

Imports nothing that is slow: the options of commands are checked with it, too.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any


def is_flag(value: Any) -> bool:
    """Whether it is a bool; 0, 1 and NumPy's are as good."""
    is_one = isinstance(value, (bool, int)) or type(value).__name__ in ("bool", "bool_")
    return is_one and bool(value in (0, 1))


def check_flags(**flags: Any) -> None:
    """Raises TypeError for the first that is neither a bool nor None."""
    for name, value in flags.items():
        if value is not None and not is_flag(value):
            raise TypeError(
                f"{name} must be a bool, got {type(value).__name__} {value!r}."
            )


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


def is_within(value: float, low: float, high: float) -> bool:
    """Whether a number is finite and in [low, high]."""
    return math.isfinite(value) and low <= value <= high
