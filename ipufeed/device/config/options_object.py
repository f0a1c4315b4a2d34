"""The options of the older style: an IPUConfig, and what it has no name for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.types import Mismatch, conform, type_name


class IpuOptions:
    """What `create_ipu_config` returns.

    Attributes:
        config: The config that they amount to.
        recorded: What was asked for that a config has no name for, such as profiling.
            Nothing in the simulator reads it.

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


def as_options(opts: Any) -> IpuOptions:
    """The options themselves, or a TypeError with where to get some."""
    if not isinstance(opts, IpuOptions):
        raise TypeError(
            "`opts` must be the options that create_ipu_config returns, got "
            f"{type(opts).__name__}."
        )
    return opts


def require_type(name: str, value: Any, wanted: Any) -> Any:
    """The value as one of the type; the error names the argument, not the attribute."""
    try:
        return conform(value, wanted)
    except Mismatch:
        raise TypeError(
            f"`{name}` must be of type {type_name(wanted)}, got {value!r}."
        ) from None


def add_options(target: dict[str, Any], name: str, added: Any) -> None:
    """Adds options given as a dict or as None."""
    if added is None:
        return
    if not isinstance(added, Mapping):
        raise TypeError(f"`{name}` must be a dictionary, got {added!r}.")
    target.update(added)
