"""The options of the older style: an IPUConfig, and options that it does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.types import (
    Mismatch,
    check_poplar_options,
    conform,
    type_name,
)


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
        TypeError: It is neither, or has what `check_poplar_options` refuses.
    """
    if added is None:
        return
    if not isinstance(added, Mapping):
        raise TypeError(f"`{name}` must be a dictionary, got {added!r}.")
    check_poplar_options(name, added)
    target.update(added)
