"""All that is public, with its parameters: what tests/support/option_table.py must name."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from ipufeed import compat, graphcore_names
from ipufeed.device.config.config import IPUConfig
from ipufeed.ops import refused

# Packages whose public names are their own `__all__`, or these.
PACKAGES = {
    "benchmark": None,
    "device": ("step",),
    "executable": None,
    "keras": None,
    "keras.layers": None,
    "queues": None,
    "sources": None,
}


def exported() -> dict[str, Any]:
    """Each public object once, by the name that a program uses for it."""
    found: dict[int, tuple[str, Any]] = {}

    def add(name: str, value: Any) -> None:
        if not inspect.ismodule(value):
            found.setdefault(id(value), (name, value))

    for module, names in graphcore_names.MODULES.items():
        for name, place in names.items():
            add(f"{module}.{name}", compat.resolve(place, name))
    for name, place in graphcore_names.TOP.items():
        add(name, compat.resolve(place, name))
    ipufeed = importlib.import_module("ipufeed")
    for name in ipufeed.__all__:
        add(name, getattr(ipufeed, name))
    for package, names in PACKAGES.items():
        module = importlib.import_module(f"ipufeed.{package}")
        for name in names or module.__all__:
            add(f"{package}.{name}", getattr(module, name))
    return dict(found.values())


def own_parameters(function: Any) -> list[str]:
    """Returns the names of a callable's parameters, but for the object's own."""
    return [
        ("*" * (parameter.kind is parameter.VAR_POSITIONAL))
        + ("**" * (parameter.kind is parameter.VAR_KEYWORD))
        + parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class of ipufeed is called with, and its public methods."""
    for base in kind.__mro__:
        if not base.__module__.startswith("ipufeed"):
            continue
        for name, value in vars(base).items():
            if name != "__init__" and name.startswith("_"):
                continue
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function):
                yield name, function


def parameters() -> dict[str, list[str]]:
    """By each public callable: "module.function", "module.Class" or with ".method"."""
    found: dict[str, list[str]] = {}
    for name, value in exported().items():
        if inspect.isclass(value):
            if issubclass(value, (enum.Enum, BaseException)):
                continue
            for method, function in methods(value):
                full = name if method == "__init__" else f"{name}.{method}"
                found.setdefault(full, own_parameters(function))
        elif callable(value) and name.rpartition(".")[2] not in refused.NAMES:
            found[name] = own_parameters(value)
    return {name: names for name, names in found.items() if names}


def attributes() -> list[str]:
    """Of IPUConfig, by their full names."""
    return [f"IPUConfig.{meta.name}" for meta, _ in IPUConfig().attributes()]
