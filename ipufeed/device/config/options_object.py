"""The options of the older style: an IPUConfig, and options that it does not have."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from ipufeed.checks import is_flag
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.types import Mismatch, conform, type_name


class IpuOptions:
    """The options that `create_ipu_config` returns.

    Attributes:
        config: The equivalent config.
        recorded: Options that a config does not have, such as profiling. They have no
            effect.

    Threads: not safe.
    """

    def __init__(self) -> None:
        self.config = IPUConfig()
        self.recorded: dict[str, Any] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IpuOptions):
            return NotImplemented
        return self.config == other.config and self.recorded == other.recorded

    __hash__ = None  # type: ignore[assignment]  # they can be changed

    def __repr__(self) -> str:
        return f"IpuOptions(recorded={self.recorded!r}, config={self.config!r})"


def as_options(opts: object) -> IpuOptions:
    """Returns the options; raises TypeError for another object."""
    if not isinstance(opts, IpuOptions):
        raise TypeError(
            "`opts` must be the options that create_ipu_config returns, got "
            f"{type(opts).__name__}."
        )
    return opts


def require_type(name: str, value: Any, wanted: Any) -> Any:
    """Returns the value converted to the type; the TypeError names the argument."""
    try:
        return conform(value, wanted)
    except Mismatch:
        raise TypeError(
            f"`{name}` must be of type {type_name(wanted)}, got {value!r}."
        ) from None


def add_options(target: dict[str, Any], name: str, added: Any) -> None:
    """Adds options to `target`, from a dict or None.

    Raises:
        TypeError: It is neither, an option's name is not a str, or its value is not a str,
            number or bool: Poplar's libraries take texts.
    """
    if added is None:
        return
    if not isinstance(added, Mapping):
        raise TypeError(f"`{name}` must be a dictionary, got {added!r}.")
    for option, value in added.items():
        if not isinstance(option, str):
            raise TypeError(
                f"The names in `{name}` must be str, got {type(option).__name__} "
                f"{option!r}: an option is given as its name and value, both as text."
            )
        if not (isinstance(value, str | numbers.Real) or is_flag(value)):
            raise TypeError(
                f"The value of {option!r} in `{name}` must be a str, number or bool, got "
                f"{type(value).__name__} {value!r}. Leave {option!r} out for its default."
            )
    target.update(added)
