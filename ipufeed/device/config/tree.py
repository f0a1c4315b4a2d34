"""A tree of checked attributes: what IPUConfig is made of.

A category declares its attributes as a dataclass does, with a type and a default; a
declaration whose type is a category is a branch:

    class Math(Category):
        fast: bool = False

    class Root(Category):
        math: Math
        level: int = 3

Only what is declared can be set, and only to a value of its type. The tree knows nothing
of IPUs.
"""

from __future__ import annotations

import copy
import difflib
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar

from ipufeed.device.config.metadata import AttributeMetadata, Declaration, Deprecated
from ipufeed.device.config.types import restore
from ipufeed.errors import ConfigAttributeError, ConfigError

_T = TypeVar("_T")


class _Restoring(Generic[_T]):
    """A method for an instance, and for its class: there it starts from the defaults."""

    def __init__(self, method: Callable[[Any, _T], None]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type[Any]) -> Callable[[_T], Any]:
        def restoring(source: _T) -> Any:
            target = owner() if instance is None else instance
            self._method(target, source)
            return target

        restoring.__doc__ = self.__doc__
        return restoring


class Category:
    """A node of the tree: attributes, and further categories.

    Threads: not safe; a tree belongs to the thread that builds it.
    """

    _declarations: ClassVar[dict[str, Declaration]] = {}
    _branches: ClassVar[dict[str, type[Category]]] = {}
    _prefix: str
    _root: type[Category]

    def __init_subclass__(cls) -> None:
        cls._declarations = dict(cls._declarations)
        cls._branches = dict(cls._branches)
        for name, hint in typing.get_type_hints(cls, include_extras=True).items():
            if name.startswith("_") or name not in cls.__annotations__:
                continue
            if isinstance(hint, type) and issubclass(hint, Category):
                cls._branches[name] = hint
                continue
            wanted, *extras = (
                typing.get_args(hint)
                if typing.get_origin(hint) is typing.Annotated
                else (hint,)
            )
            # Options may be anything; an error message that says `dict` says it all.
            wanted = dict if typing.get_origin(wanted) is dict else wanted
            mark = next((each for each in extras if isinstance(each, Deprecated)), None)
            cls._declarations[name] = Declaration(wanted, getattr(cls, name), mark)
            # An instance has the value; left here it would hide a missing one.
            delattr(cls, name)

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
        # Not a path, which setattr() could be given.
        if name not in self._declarations:
            raise self._unknown(name)
        metadata = self.get_attribute_metadata(name)
        converted = metadata.convert(value)
        metadata.warn_if_deprecated()
        vars(self)[name] = converted

    def __getattr__(self, name: str) -> Any:
        # Called for what is not there. copy and pickle ask for special methods before
        # the object is filled, and must not be told of look-alikes.
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._unknown(name)

    def __delattr__(self, name: str) -> None:
        raise ConfigError(f"{self._prefix}{name} cannot be deleted.")

    def _unknown(self, name: str) -> ConfigAttributeError:
        message = f"'{name}' is not a valid attribute of this config."
        root = vars(self).get("_root", type(self))
        likely = _most_like(self._prefix + name, root)
        if likely is not None:
            message += f" Did you mean '{likely}'?"
        return ConfigAttributeError(message)

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """What is known of an attribute.

        Args:
            attr: Its name relative to this category, such as "optimizations.math.fast".

        Raises:
            ValueError: there is none of that name, or it is a category's.
        """
        first, _, rest = attr.partition(".")
        if first in self._branches:
            if not rest:
                raise ConfigAttributeError(
                    f"'{self._prefix}{attr}' is a category, and only attributes have "
                    "metadata."
                )
            branch: Category = vars(self)[first]
            return branch.get_attribute_metadata(rest)
        if first not in self._declarations or rest:
            raise self._unknown(attr)
        return self._declarations[first].metadata(self._prefix + first)

    # ---- As a whole

    def attributes(self) -> Iterator[tuple[AttributeMetadata, Any]]:
        """Each attribute of this category and those in it, with its value."""
        for name in self._declarations:
            yield self.get_attribute_metadata(name), vars(self)[name]
        for name in self._branches:
            yield from vars(self)[name].attributes()

    def to_dict(self) -> dict[str, Any]:
        """A copy of all values: a dict that has a dict for each category."""
        values = {name: copy.deepcopy(vars(self)[name]) for name in self._declarations}
        return values | {name: vars(self)[name].to_dict() for name in self._branches}

    def to_json(self) -> str:
        """The same as JSON; an enumeration's member is written as its name."""
        return json.dumps(self.to_dict(), default=_as_json)

    def _from_dict(self, dct: Mapping[str, Any]) -> None:
        """Sets what a dict of `to_dict` has, and leaves the rest as it is.

        `IPUConfig.from_dict(values)` gives a new config, `config.from_dict(values)`
        changes `config`; both return it. Keys may be full names ("io_tiles.num_io_tiles"),
        and the members of enumerations may be given by name or value.

        Raises:
            ValueError: a name is unknown. Nothing has been changed then.
            TypeError: a value is of a wrong type. Nothing has been changed then.
        """
        changes: list[tuple[Category, str, Any]] = []
        self._collect(dct, changes)
        for category, name, value in changes:
            vars(category)[name] = value

    def _from_json(self, json_cfg: str) -> None:
        """Sets what the JSON of `to_json` has, as `from_dict` does.

        Raises:
            ValueError: it is not JSON, or a name is unknown.
            TypeError: it is not a JSON object, or a value is of a wrong type.
        """
        self._from_dict(json.loads(json_cfg))

    from_dict = _Restoring[Mapping[str, Any]](_from_dict)
    from_json = _Restoring[str](_from_json)

    def _collect(self, dct: Any, changes: list[tuple[Category, str, Any]]) -> None:
        """Appends what the dict would set, checked."""
        if not isinstance(dct, Mapping):
            where = f"{self._prefix.rstrip('.')} is a category and " * bool(
                self._prefix
            )
            raise TypeError(f"{where}must be given as a dict, got {dct!r}")
        for key, value in dct.items():
            first, _, rest = str(key).partition(".")
            if first in self._branches:
                branch: Category = vars(self)[first]
                branch._collect({rest: value} if rest else value, changes)
                continue
            metadata = self.get_attribute_metadata(str(key))
            converted = metadata.convert(restore(value, metadata.type))
            # What to_dict gave back must not warn of attributes that the user has not set.
            if converted != metadata.default:
                metadata.warn_if_deprecated()
            changes.append((self, first, copy.deepcopy(converted)))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(_comparable(vars(self)) == _comparable(vars(other)))

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __copy__(self) -> Self:
        # The copy gets categories of its own: a copy that shares them is none.
        twin = type(self).__new__(type(self))
        for name, value in vars(self).items():
            vars(twin)[name] = copy.copy(value) if name in self._branches else value
        return twin

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}("]
        for name in [*self._declarations, *self._branches]:
            text = repr(vars(self)[name]).replace("\n", "\n    ")
            lines.append(f"    {name}={text},")
        return "\n".join([*lines, ")"])


def _comparable(value: Any) -> Any:
    """A value without the difference between lists and tuples, which JSON forgets."""
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _as_json(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be JSON")


def _names(category: type[Category], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The full name of every attribute below, and whether it is deprecated."""
    for name, declaration in category._declarations.items():
        yield prefix + name, declaration.deprecated is not None
    for name, branch in category._branches.items():
        yield f"{prefix}{name}", False
        yield from _names(branch, f"{prefix}{name}.")


def _most_like(wrong: str, root: type[Category]) -> str | None:
    """The name in the tree that the user may have meant, or None.

    The last parts of the names are compared: the right name in the wrong category is as
    likely as a slip of the pen. Of equal ones that in the same category is meant, and a
    deprecated one last.
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
