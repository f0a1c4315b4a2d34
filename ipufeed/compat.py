"""Makes Graphcore's names importable; graphcore_names.py has the table.

    import ipufeed as ipu                    ipu.loops.repeat, ipu.utils.IPUConfig, ...
    ipufeed.compat.install()                 from tensorflow.python.ipu import loops

`python -m ipufeed.run program.py` runs a program after install().
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.abc
import sys
import types
from collections import defaultdict
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from ipufeed.graphcore_names import ELSEWHERE, MODULES, TOP
from ipufeed.programs.missing_modules import MISSING, PLUGIN
from ipufeed.tf_patches import frozen_keras, moved_names, removed_names

ALIAS = "tensorflow.python.ipu"

# Graphcore's module -> the module of ipufeed that replaces it as a whole.
OWN = {
    "keras": "ipufeed.keras",
    "keras.extensions": "ipufeed.keras.extensions",
    "keras.layers": "ipufeed.keras.layers",
    "keras.losses": "ipufeed.keras.losses",
    "keras.optimizers": "ipufeed.keras.optimizers",
}
# The package that Graphcore's layers and optimizers for Keras have moved to.
ADDONS = "ipu_tensorflow_addons"
# Keras's modules, which get an attribute `ipu`: three objects in TensorFlow 2.21.
KERAS = ("keras", "keras._tf_keras.keras", "tensorflow.keras")
# Those of tf_keras, which is tf.keras with TF_USE_LEGACY_KERAS=1.
LEGACY_KERAS = ("tf_keras", "tf_keras.api._v2.keras", "tensorflow.keras")
# `from keras.ipu import ...` is Graphcore's spelling of version 3, with either Keras.
IMPORTED_AS = "keras"


class AliasModule(types.ModuleType):
    """A module whose names are defined elsewhere and imported at their first use."""

    def __init__(self, name: str, table: dict[str, str]) -> None:
        super().__init__(name, f"{name}: names defined in ipufeed, see ipufeed.compat.")
        self.__dict__["_table"] = table
        self.__all__ = sorted(table)
        # `from module import name` then searches for a module of this name: see _Refusal.
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        table: dict[str, str] = self.__dict__["_table"]
        if name not in table:
            text = f"module {self.__name__!r} has no attribute {name!r}"
            # AutoGraph asks each module for its file at each function that it converts.
            if not name.startswith("__"):
                elsewhere = _elsewhere(f"{self.__name__}.{name}")
                text += f". {self._contents()}{elsewhere}"
            raise AttributeError(text)
        value = resolve(table[name], name)
        setattr(self, name, value)
        return value

    def _contents(self) -> str:
        """Returns the list of names and modules, for an error."""
        modules = [
            name
            for name, value in self.__dict__.items()
            if isinstance(value, AliasModule)
        ]
        parts = []
        if self.__dict__["_table"]:
            parts.append(f"It has: {', '.join(sorted(self.__dict__['_table']))}.")
        if modules:
            parts.append(f"Its modules: {', '.join(sorted(modules))}.")
        return " ".join(parts)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__dict__["_table"]})


def _elsewhere(full: str) -> str:
    """Returns what there is in place of a name: a sentence, or ""."""
    if full in MISSING:
        return f" {MISSING[full]}."
    name = full.rpartition(".")[2]
    once = {id(names): module for module, names in reversed(MODULES.items())}
    places: dict[str, list[str]] = {}
    for module, names in MODULES.items():
        if once[id(names)] == module:
            places.setdefault(module.rpartition(".")[2], []).append(f"ipu.{module}")
            for each in names:
                places.setdefault(each, []).append(f"ipu.{module}.{each}")
    if name in places:
        return f" There is {' and '.join(places[name])}."
    for each in ELSEWHERE:
        places.setdefault(each.rpartition(".")[2], []).append(each)
    near = difflib.get_close_matches(name, places, n=1, cutoff=0.75)
    return f" The nearest is {' and '.join(places[near[0]])}." if near else ""


class _Refusal(importlib.abc.MetaPathFinder):
    """The last finder: refuses what is not in Graphcore's modules, with what there is.

    The error has no `name`: Python would replace its text in `from module import name`.
    """

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a name below Graphcore's modules."""
        package, _, _ = name.rpartition(".")
        if package.startswith("ipufeed."):  # as alias modules are named
            if package.removeprefix("ipufeed.") not in MODULES:
                return None
            name = name.replace("ipufeed", ALIAS, 1)
        elif not name.startswith((f"{ALIAS}.", f"{PLUGIN}.")):
            return None
        found = sys.modules.get(package)
        if name in MISSING:
            text = _elsewhere(name)
        elif isinstance(found, AliasModule):
            text = f" {found._contents()}{_elsewhere(name)}"
        else:
            inside = sorted(each for each in ELSEWHERE if each.startswith(PLUGIN))
            text = f" It has: {', '.join(inside)}." if name.startswith(PLUGIN) else ""
            text += _elsewhere(name)
        raise ModuleNotFoundError(f"{name!r} does not exist on a simulated IPU.{text}")


def resolve(module: str, name: str) -> Any:
    """Imports and returns an object, after connecting ipufeed's packages."""
    _connect()
    return getattr(importlib.import_module(module), name)


def _connect() -> None:
    importlib.import_module("ipufeed.connect").connect()


def top_level(name: str) -> Any:
    """Returns the object of a name at the top level of Graphcore's package."""
    return resolve(TOP[name], name)


_aliases: dict[str, AliasModule] = {}


@functools.cache
def _inside() -> defaultdict[str, list[str]]:
    """Returns the modules of each package of MODULES."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        found[module.rpartition(".")[0]].append(module)
    return found


def submodule(name: str) -> AliasModule:
    """Returns one of MODULES as a module of ipufeed.

    Where ipufeed has a file of this name (ipufeed/ops/nn_ops.py), that file is what an
    import finds, and the alias module has the same objects.
    """
    full = f"ipufeed.{name}"
    module = _aliases.get(name)
    if module is None:
        module = _aliases[name] = AliasModule(full, MODULES[name])
        if full not in MODULES[name].values():
            sys.modules[full] = module
        for other in _inside()[name]:
            # A package, to import its modules and those of ipufeed's folder.
            module.__path__ = [str(Path(__file__).parent / name)]
            setattr(module, other.rpartition(".")[2], submodule(other))
    return module


def install() -> None:
    """Makes `tensorflow.python.ipu` and its modules importable. Idempotent.

    It also restores names that TensorFlow has removed (tf_patches/removed_names.py) or
    moved (tf_patches/moved_names.py).

    Threads: call it before the program's own imports.
    """
    _connect()  # a program may use it through TensorFlow alone: a SavedModel, an assertion
    package = sys.modules.get(ALIAS)
    if package is None:
        import tensorflow.python as parent

        package = AliasModule(ALIAS, TOP)
        package.__path__ = []  # a package: its modules can be imported
        sys.modules[ALIAS] = package
        parent.ipu = package
    for name in MODULES:
        module = submodule(name)
        sys.modules[f"{ALIAS}.{name}"] = module
        if "." not in name:
            setattr(package, name, module)
    _put_into_keras(package)
    # A star import of Graphcore's package gives its modules, too.
    vars(package)["__all__"] = sorted(
        {*TOP, *(each for each in MODULES if "." not in each), "keras"}
    )
    _put_addons()
    for name in ELSEWHERE:
        _put_elsewhere(name)
    removed_names.restore()
    moved_names.restore()
    removed_names.restore_in_version_1("estimator", sys.modules["tensorflow.estimator"])
    frozen_keras.install()
    if not any(isinstance(each, _Refusal) for each in sys.meta_path):
        sys.meta_path.append(_Refusal())


class _ElsewhereModule(types.ModuleType):
    """An alias of a module, which is imported when an attribute is read."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, f"{name}: see {place}.")
        self.__dict__["_place"] = place
        self.__path__: list[str] = []  # popdist.tensorflow is a module in it

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # read by a star import
            return self._names()
        if name.startswith("__"):  # read by the import system
            raise AttributeError(name)
        value = resolve(self.__dict__["_place"], name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})

    def _names(self) -> list[str]:
        place: str = self.__dict__["_place"]
        module = importlib.import_module(place)
        own = [
            name
            for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", None) == place
        ]
        return list(getattr(module, "__all__", own))


def _put_elsewhere(name: str) -> None:
    """Makes a module of ELSEWHERE and its parent packages importable."""
    place = ELSEWHERE[name]
    if name in sys.modules:
        return
    module: types.ModuleType = _ElsewhereModule(name, place)
    sys.modules[name] = module
    if name == "popdist":
        tensorflow = _ElsewhereModule("popdist.tensorflow", f"{place}_tensorflow")
        sys.modules["popdist.tensorflow"] = module.__dict__["tensorflow"] = tensorflow
    package, _, last = name.rpartition(".")
    while package:
        known = sys.modules.get(package)
        if known is None and package.count(".") > 1:  # below tensorflow.compiler
            known = sys.modules[package] = types.ModuleType(package)
            known.__path__ = []
        if known is None:
            known = importlib.import_module(package)
        setattr(known, last, module)
        module, (package, _, last) = known, package.rpartition(".")


def _put_into_keras(package: types.ModuleType) -> None:
    """Makes the modules of OWN importable from Graphcore's package and from Keras."""
    kinds = LEGACY_KERAS if frozen_keras.is_legacy() else KERAS
    for name, own in OWN.items():
        module = importlib.import_module(own)
        sys.modules[f"{ALIAS}.{name}"] = module
        for keras in {*kinds, IMPORTED_AS}:
            sys.modules[f"{keras}.{name.replace('keras', 'ipu', 1)}"] = module
    vars(package)["keras"] = importlib.import_module(OWN["keras"])
    for keras in kinds:
        # TensorFlow has imported Keras, if it is installed.
        with contextlib.suppress(ImportError):
            vars(importlib.import_module(keras))["ipu"] = vars(package)["keras"]


def _put_addons() -> None:
    """Makes the Keras of Graphcore's addons importable; an installed package stays."""
    # In files alone: a finder of ipufeed.run would make it, and take it out again.
    if ADDONS in sys.modules or PathFinder.find_spec(ADDONS) is not None:
        return
    for name in (ADDONS, f"{ADDONS}.keras"):
        sys.modules[name] = types.ModuleType(name, "Names of ipufeed.")
        sys.modules[name].__path__ = []
    vars(sys.modules[ADDONS])["keras"] = inner = sys.modules[f"{ADDONS}.keras"]
    for name, own in OWN.items():
        package, _, last = name.rpartition(".")
        if package and last != "extensions":
            module = importlib.import_module(own)
            sys.modules[f"{ADDONS}.{name}"] = vars(inner)[last] = module
