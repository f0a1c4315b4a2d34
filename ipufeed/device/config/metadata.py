"""What is known of a configuration's attribute: name, type, default, deprecation."""

from __future__ import annotations

import copy
import types
import typing
from dataclasses import dataclass
from typing import Any

from ipufeed.device.config.types import Mismatch, conform, type_name
from ipufeed.device.log import LOGGER


@dataclass(frozen=True)
class Deprecated:
    """Marks a declaration: `old: Annotated[bool, Deprecated("use new")] = False`."""

    message: str


@dataclass(frozen=True)
class AttributeMetadata:
    """What is known of an attribute.

    Attributes:
        name: Its full name, such as "optimizations.math.fast".
        type: Its type, as declared.
        default: Its default.
        deprecated: Whether it should be used no longer.
        deprecated_msg: What to use instead; None if it is not deprecated.
    """

    name: str
    type: Any
    default: Any
    deprecated: bool = False
    deprecated_msg: str | None = None

    @property
    def types(self) -> tuple[Any, ...]:
        """The types it may have: those of a union, or the only one."""
        if typing.get_origin(self.type) is types.UnionType:
            return typing.get_args(self.type)
        return (self.type,)

    def convert(self, value: Any) -> Any:
        """Gives the value as one of the type, or raises the TypeError of `check_type`."""
        try:
            return conform(value, self.type)
        except Mismatch:
            raise TypeError(
                f"Trying to set {self.name} to {value}, "
                f"but it must be of type {type_name(self.type)}"
            ) from None

    def check_type(self, value: Any) -> bool:
        """Whether the attribute may have this value.

        Returns:
            True.

        Raises:
            TypeError: the value is not of the attribute's type.
        """
        self.convert(value)
        return True

    def warn_if_deprecated(self) -> None:
        """Logs a warning, which says what to use instead, if it is deprecated."""
        if self.deprecated:
            LOGGER.warning("%s is deprecated: %s", self.name, self.deprecated_msg)


@dataclass(frozen=True)
class Declaration:
    """An attribute of a class of categories, which may stand anywhere in a tree."""

    type: Any
    default: Any
    deprecated: Deprecated | None

    def metadata(self, name: str) -> AttributeMetadata:
        """What is known of it where it has this full name."""
        message = self.deprecated.message if self.deprecated else None
        # A copy: the caller must not be able to change the default.
        default = copy.deepcopy(self.default)
        return AttributeMetadata(
            name, self.type, default, self.deprecated is not None, message
        )
