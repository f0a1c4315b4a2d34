"""Checks a value against the type of a configuration's attribute.

NumPy's numbers are accepted for Python's, and an int for a float. A bool is not an int
here, since `num_io_tiles = True` is a mistake.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Real
from typing import Any

import numpy as np


class Mismatch(Exception):  # noqa: N818 - caught where the attribute's name is known
    """The value is not of the type."""


def conform(value: Any, wanted: Any) -> Any:
    """Returns the value converted to the wanted type; raises Mismatch.

    A value of the type is returned itself, not a copy: a caller that assigns a dict may
    fill it afterwards.
    """
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return _conform_to_any(value, typing.get_args(wanted))
    if origin in (list, tuple):
        return _conform_items(value, origin, typing.get_args(wanted)[0])
    if wanted is bool:
        if isinstance(value, bool | np.bool_):
            return bool(value)
    elif wanted in (int, float):
        if _is_number(value, Integral if wanted is int else Real):
            return value if type(value) is wanted else wanted(value)
    elif isinstance(value, wanted):
        return value
    elif isinstance(value, bool | np.bool_) and hasattr(wanted, "from_bool"):
        return wanted.from_bool(bool(value))
    raise Mismatch


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_ | Enum)


def _conform_to_any(value: Any, options: tuple[Any, ...]) -> Any:
    for option in options:
        try:
            return conform(value, option)
        except Mismatch:
            continue
    raise Mismatch


def _conform_items(value: Any, kind: type, wanted: Any) -> Any:
    if not isinstance(value, kind):
        raise Mismatch
    items = [conform(item, wanted) for item in typing.cast("list[Any]", value)]
    unchanged = all(new is old for new, old in zip(items, value, strict=True))  # type: ignore[call-overload]
    return value if unchanged else kind(items)


def restore(value: Any, wanted: Any) -> Any:
    """Converts a value of JSON: the name or value of an enum's member to the member."""
    if not (isinstance(wanted, type) and issubclass(wanted, Enum)):
        return value
    if isinstance(value, str) and value in wanted.__members__:
        return wanted[value]
    if _is_number(value, Integral) and value in [member.value for member in wanted]:
        return wanted(value)
    return value


def type_name(wanted: Any) -> str:
    """Returns a type as text for a message: `bool`, `int | list[int]`."""
    return wanted.__name__ if isinstance(wanted, type) else str(wanted)


def check_poplar_options(name: str, options: Mapping[Any, Any]) -> None:
    """Checks options of one of Poplar's libraries, which take texts.

    Raises:
        TypeError: The name of an option is not a str, or its value not a str, number or
            bool.
    """
    for option, value in options.items():
        if not isinstance(option, str):
            raise TypeError(
                f"The names in `{name}` must be str, got {type(option).__name__} "
                f"{option!r}: an option is given as its name and value, both as text."
            )
        if not isinstance(value, str | Real | np.bool_):
            raise TypeError(
                f"The value of {option!r} in `{name}` must be a str, number or bool, got "
                f"{type(value).__name__} {value!r}. Leave {option!r} out for its default."
            )
