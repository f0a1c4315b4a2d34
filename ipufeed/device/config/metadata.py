"""Metadata of a configuration's attributes: name, type, default, deprecation."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from ipufeed.device.config.types import Mismatch, conform, type_name


@dataclass(frozen=True)
class Deprecated:
    """Marks a declaration: `old: Annotated[bool, Deprecated("use new")] = False`."""

    message: str


@dataclass(frozen=True)
class AttributeMetadata:
    """The metadata of an attribute.

    Attributes:
        name: Its full name, such as "optimizations.math.fast".
        actual_type: Its declared type; None for a category.
        default: Its default; None for a category.
        deprecated: Whether it is deprecated.
        deprecated_msg: Its replacement; None if it is not deprecated.
        description: Its description, which is also `__doc__` of the object.
    """

    name: str
    actual_type: Any
    default: Any
    deprecated: bool = False
    deprecated_msg: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.description)

    @property
    def type(self) -> str | None:
        """Its type as text: "str", "typing.Union[int, typing.List[int]]"."""
        return None if self.actual_type is None else _typing_name(self.actual_type)

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of its values: those of a union, or the only one."""
        if typing.get_origin(self.actual_type) is types.UnionType:
            return typing.get_args(self.actual_type)
        return (self.actual_type,)

    def convert(self, value: Any) -> Any:
        """Returns the value converted to the type; raises TypeError like `check_type`."""
        try:
            return conform(value, self.actual_type)
        except Mismatch:
            raise TypeError(
                f"Trying to set {self.name} to {value}, "
                f"but it must be of type {type_name(self.actual_type)}, "
                f"got {type(value).__name__} {value!r}"
            ) from None

    def check_type(self, value: Any) -> bool:
        """Checks that a value is of the attribute's type.

        Returns:
            True.

        Raises:
            TypeError: The value is not of the attribute's type.
        """
        self.convert(value)
        return True

    def warn_if_deprecated(self) -> None:
        """Logs a warning with its replacement, if it is deprecated."""
        if self.deprecated:
            tf_logger().warning(
                "%s has been deprecated: %s", self.name, self.deprecated_msg
            )


@dataclass(frozen=True)
class Declaration:
    """An attribute of a category class, independent of its place in a tree."""

    type: Any
    default: Any
    deprecated: Deprecated | None

    def metadata(self, name: str, description: str = "") -> AttributeMetadata:
        """Returns its metadata with this full name."""
        message = self.deprecated.message if self.deprecated else None
        # A copy: the caller must not be able to change the default.
        default = copy.deepcopy(self.default)
        return AttributeMetadata(
            name,
            self.type,
            default,
            self.deprecated is not None,
            message,
            description,
        )


@functools.cache  # a configuration is checked at each use, with all its attributes
def described(category: type, name: str) -> str:
    """Returns an attribute's text in the `Attributes:` of a category's docstring, or ""."""
    text = ""
    for owner in reversed(category.__mro__):
        lines = (inspect.getdoc(owner) or "").partition("Attributes:\n")[2]
        found = re.search(
            rf"^ {{4}}{name}: (.*(?:\n {{5,}}.*)*)", lines, flags=re.MULTILINE
        )
        text = " ".join(found[1].split()) if found else text
    return text


def _typing_name(wanted: Any) -> str:
    """Returns a type in the notation of the module typing: "typing.List[int]"."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is None:
        return "..." if wanted is Ellipsis else wanted.__name__
    name = "Union" if origin is types.UnionType else origin.__name__.capitalize()
    return f"typing.{name}[{', '.join(map(_typing_name, arguments))}]"


def tf_logger() -> Any:
    """Returns TensorFlow's logger, which programs filter."""
    import tensorflow as tf

    return tf.get_logger()
