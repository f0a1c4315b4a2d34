"""A tree of checked attributes, the base of IPUConfig.

A category declares its attributes like a dataclass, with a type and a default; a
declaration whose type is a category is a branch:

    class Math(Category):
        fast: bool = False

    class Root(Category):
        math: Math
        level: int = 3

Only declared attributes can be set, to values of their types. The tree does not depend on
IPUs.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from ipufeed.device.config.metadata import (
    AttributeMetadata,
    Declaration,
    Deprecated,
    described,
    tf_logger,
)
from ipufeed.device.config.types import restore
from ipufeed.errors import ConfigAttributeError, ConfigError

_T = TypeVar("_T")
_C = TypeVar("_C", bound="Category")
_Declared: TypeAlias = "tuple[dict[str, Declaration], dict[str, type[Category]]]"


class _Restoring(Generic[_T]):
    """A method of an instance, and of its class, where it starts from the defaults."""

    def __init__(
        self, method: Callable[[Any, _T], None], read: Callable[[_T], Any]
    ) -> None:
        self._method = method
        self._read = read
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type[Any]) -> Callable[[_T], Any]:
        def restoring(source: _T) -> Any:
            if instance is None:
                target = owner()
                target._restore(self._read(source))
                return target
            self._method(instance, source)
            return None

        restoring.__doc__ = self.__doc__
        return restoring


class Category:
    """A node of the tree, with attributes and further categories.

    Threads: not safe; a tree belongs to the thread that builds it.
    """

    _defaults: ClassVar[dict[str, Any]] = {}  # of the class's own attributes
    _cached: ClassVar[_Declared] = ({}, {})
    _prefix: str
    _root: type[Category]

    def __init_subclass__(cls) -> None:
        # An instance has the value; the class's would hide a missing one.
        cls._defaults = {name: vars(cls)[name] for name in _own(cls) & vars(cls).keys()}
        for name in cls._defaults:
            delattr(cls, name)

    @property
    def _declarations(self) -> dict[str, Declaration]:
        return _declared(type(self))[0]

    @property
    def _branches(self) -> dict[str, type[Category]]:
        return _declared(type(self))[1]

    def __init__(self) -> None:
        self._fill("", type(self))

    def _fill(self, prefix: str, root: type[Category]) -> None:
        state = vars(self)
        state["_prefix"], state["_root"] = prefix, root
        for name, branch in self._branches.items():
            state[name] = branch.__new__(branch)
            state[name]._fill(f"{prefix}{name}.", root)
        for name, declaration in self._declarations.items():
            state[name] = copy.deepcopy(declaration.default)

    # ---- Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._branches:
            raise ConfigError(
                f"{self._prefix}{name} is a category and cannot be assigned to."
            )
        # Not a path, which is possible with setattr().
        if name not in self._declarations:
            raise self._unknown(name)
        metadata = self.get_attribute_metadata(name)
        converted = metadata.convert(value)
        metadata.warn_if_deprecated()
        vars(self)[name] = converted

    def __getattr__(self, name: str) -> Any:
        # Called for missing names. copy and pickle look up special methods before the
        # object is filled, which needs no suggestion of similar names.
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._unknown(name)

    def __delattr__(self, name: str) -> None:
        raise ConfigError(f"{self._prefix}{name} cannot be deleted.")

    def _unknown(self, name: str) -> ConfigAttributeError:
        full = self._prefix + name
        message = f"'{full}' is not a valid attribute of this config."
        root = vars(self).get("_root", type(self))
        likely = _most_like(full, root)
        if likely is not None:
            message += f" Did you mean '{likely}'?"
        return ConfigAttributeError(message)

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """Returns the metadata of an attribute.

        Args:
            attr: Its name relative to this category, such as "optimizations.math.fast".

        Raises:
            TypeError: The name is not a str.
            ValueError: No attribute has that name.
        """
        if not isinstance(attr, str):
            raise TypeError(
                "`attr` must be a str, such as 'optimizations.math.fast', got "
                f"{type(attr).__name__} {attr!r}."
            )
        first, _, rest = attr.partition(".")
        if first in self._branches:
            branch: Category = vars(self)[first]
            if rest:
                return branch.get_attribute_metadata(rest)
            text = inspect.getdoc(branch) or ""
            return AttributeMetadata(self._prefix + first, None, None, description=text)
        if first not in self._declarations or rest:
            wrong = self._unknown(attr)
            raise ConfigAttributeError(
                f"Could not get attribute metadata for '{self._prefix}{attr}': {wrong}"
            )
        # mypy takes the class for unhashable, since its instances are.
        text = described(type(self), first)  # type: ignore[arg-type]
        return self._declarations[first].metadata(self._prefix + first, text)

    # ---- As a whole

    def attributes(self) -> Iterator[tuple[AttributeMetadata, Any]]:
        """Yields each attribute of this category and its categories, with its value."""
        for name in self._declarations:
            yield self.get_attribute_metadata(name), vars(self)[name]
        for name in self._branches:
            yield from vars(self)[name].attributes()

    def to_dict(self) -> dict[str, Any]:
        """Returns a copy of all values by full name; members of enumerations as values."""
        return {
            metadata.name: value.value
            if isinstance(value, Enum)
            else copy.deepcopy(value)
            for metadata, value in self.attributes()
        }

    def to_json(self) -> str:
        """Returns `to_dict` as JSON."""
        return json.dumps(self.to_dict(), default=_as_json)

    def by_category(self) -> dict[str, Any]:
        """Returns all values for JSON: a dict for each category, and members by name."""
        values = {
            name: value.name if isinstance(value, Enum) else copy.deepcopy(value)
            for name in self._declarations
            for value in (vars(self)[name],)
        }
        return values | {
            name: vars(self)[name].by_category() for name in self._branches
        }

    def _from_dict(self, dct: Mapping[str, Any]) -> None:
        """Sets the values of a dict of `to_dict`; warns of the others, which are kept.

        `config.from_dict(values)` changes `config`, and returns None;
        `IPUConfig.from_dict(values)` returns a new config. A category's attributes may
        also be a dict under its name, and members of enumerations may be names.

        Raises:
            ValueError: A name is unknown. The config is unchanged.
            TypeError: A value is of a wrong type. The config is unchanged.
        """
        given = self._restore(dct)
        for metadata, _ in self.attributes():
            if metadata.name not in given:
                tf_logger().warning(
                    "%s didn't have a value: the existing value will be retained",
                    metadata.name,
                )

    def _restore(self, dct: Mapping[str, Any]) -> set[str]:
        """Sets the values of a dict; returns their full names."""
        changes: list[tuple[Category, str, Any]] = []
        self._collect(dct, changes)
        for category, name, value in changes:
            vars(category)[name] = value
        return {category._prefix + name for category, name, _ in changes}

    def _from_json(self, json_cfg: str) -> None:
        """Sets the values of the JSON of `to_json`, like `from_dict`.

        Raises:
            ValueError: It is not JSON, or a name is unknown.
            TypeError: It is not a JSON object, or a value is of a wrong type.
        """
        self._from_dict(json.loads(json_cfg))

    from_dict = _Restoring[Mapping[str, Any]](_from_dict, lambda source: source)
    from_json = _Restoring[str](_from_json, json.loads)

    def _collect(self, dct: Any, changes: list[tuple[Category, str, Any]]) -> None:
        """Appends the checked values of a dict to `changes`."""
        if not isinstance(dct, Mapping):
            category = self._prefix.rstrip(".")
            what = f"{category} is a category and" if category else type(self).__name__
            raise TypeError(f"{what} must be given as a dict, got {dct!r}")
        for key, value in dct.items():
            first, _, rest = str(key).partition(".")
            if first in self._branches:
                branch: Category = vars(self)[first]
                branch._collect({rest: value} if rest else value, changes)
                continue
            metadata = self.get_attribute_metadata(str(key))
            converted = metadata.convert(restore(value, metadata.actual_type))
            # A result of to_dict must not warn of attributes that the user has not set.
            if converted != metadata.default:
                metadata.warn_if_deprecated()
            changes.append((self, first, copy.deepcopy(converted)))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(_comparable(vars(self)) == _comparable(vars(other)))

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __copy__(self: _C) -> _C:
        # The copy has its own categories: changes must not affect the original.
        twin = type(self).__new__(type(self))
        for name, value in vars(self).items():
            vars(twin)[name] = copy.copy(value) if name in self._branches else value
        return twin

    def __repr__(self) -> str:
        lines = str(self).split("\n")
        return "\n".join([f"{type(self).__name__}:", *(f"  {line}" for line in lines)])

    def __str__(self) -> str:
        return "\n".join(
            f"{metadata.name} = {_shown(value)}"
            for metadata, value in self.attributes()
        )


def _own(category: type[Category]) -> set[str]:
    """Returns the names that a category declares itself, not one of its bases."""
    own = vars(category).get("__annotations__", {})
    return {name for name in own if not name.startswith("_")}


def _declared(category: type[Category]) -> _Declared:
    """Returns the attributes and the branches of a category, with those of its bases.

    They are read from the class at the first use: `import ipufeed` needs no types.
    """
    if "_cached" not in vars(category):
        category._cached = _read(category)
    return category._cached


def _read(category: type[Category]) -> _Declared:
    """Evaluates the types of a category's attributes."""
    (base,) = category.__bases__
    inherited, inner = _declared(base)
    declarations, branches = inherited.copy(), inner.copy()
    hints = typing.get_type_hints(category, include_extras=True)
    own = _own(category)
    for name, hint in hints.items():
        if name not in own:
            continue
        if isinstance(hint, type) and issubclass(hint, Category):
            branches[name] = hint
            continue
        wanted, *extras = (
            typing.get_args(hint)
            if typing.get_origin(hint) is typing.Annotated
            else (hint,)
        )
        # Options may be of any type; `dict` is sufficient in an error message.
        wanted = dict if typing.get_origin(wanted) is dict else wanted
        mark = next((each for each in extras if isinstance(each, Deprecated)), None)
        declarations[name] = Declaration(wanted, category._defaults[name], mark)
    return declarations, branches


def _shown(value: Any) -> str:
    """Returns a value as text: members as Class.MEMBER."""
    return str(value) if isinstance(value, Enum) else repr(value)


def _comparable(value: Any) -> Any:
    """Returns a value with lists instead of tuples, since JSON has lists only."""
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _as_json(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be JSON")


def _names(category: type[Category], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the full name of every attribute below, and whether it is deprecated."""
    declarations, branches = _declared(category)
    for name, declaration in declarations.items():
        yield prefix + name, declaration.deprecated is not None
    for name, branch in branches.items():
        yield f"{prefix}{name}", False
        yield from _names(branch, f"{prefix}{name}.")


def _most_like(wrong: str, root: type[Category]) -> str | None:
    """Returns the name in the tree that is most similar to a wrong one, or None.

    The last parts of the names are compared: the right name in the wrong category is as
    likely as a typing error. Of equal ones, the one in the same category is preferred, and
    a deprecated one comes last.
    """
    category, _, leaf = wrong.rpartition(".")

    def likelihood(pair: tuple[str, bool]) -> tuple[bool, bool]:
        name, deprecated = pair
        return name.rpartition(".")[0] == category, not deprecated

    leaves: dict[str, str] = {}
    for name, _ in sorted(_names(root), key=likelihood, reverse=True):
        leaves.setdefault(name.rpartition(".")[2], name)
    close = difflib.get_close_matches(leaf, leaves, n=1)
    return leaves[close[0]] if close else None
