"""Graphcore's names for what ipufeed has: the table of graphcore_names, used in two ways.

    import ipufeed as ipu                    ipu.loops.repeat, ipu.utils.IPUConfig, ...
    ipufeed.compat.install()                 from tensorflow.python.ipu import loops

`python -m ipufeed.run program.py` runs a program with the second in place.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

from ipufeed.graphcore_names import ELSEWHERE, MODULES, TOP
from ipufeed.tf_patches import frozen_keras, removed_names

ALIAS = "tensorflow.python.ipu"

# Modules of ours that stand in the place of Graphcore's as they are.
OWN = {
    "keras": "ipufeed.keras",
    "keras.extensions": "ipufeed.keras.extensions",
    "keras.layers": "ipufeed.keras.layers",
    "keras.optimizers": "ipufeed.keras.optimizers",
}
# Keras's own modules, each of which has them as `ipu`: three objects in TensorFlow 2.21.
KERAS = ("keras", "keras._tf_keras.keras", "tensorflow.keras")
# ... and those of tf_keras, which TF_USE_LEGACY_KERAS=1 makes tf.keras.
LEGACY_KERAS = ("tf_keras", "tf_keras.api._v2.keras", "tensorflow.keras")


class AliasModule(types.ModuleType):
    """A module whose names stand elsewhere, and are looked up when they are used."""

    def __init__(self, name: str, table: dict[str, str]) -> None:
        super().__init__(name, f"{name}: names of ipufeed's, see ipufeed.compat.")
        self.__dict__["_table"] = table
        self.__all__ = sorted(table)

    def __getattr__(self, name: str) -> Any:
        table: dict[str, str] = self.__dict__["_table"]
        if name not in table:
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r}. {self._contents()}"
                f"{elsewhere(name)}"
            )
        value = resolve(table[name], name)
        setattr(self, name, value)
        return value

    def _contents(self) -> str:
        """What there is, for an error: the names of its own, and its modules."""
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


def elsewhere(name: str) -> str:
    """A sentence with the modules that have a name, or are called so; "" for none."""
    once = {id(names): module for module, names in reversed(MODULES.items())}
    places = [
        f"ipu.{module}" if module.rpartition(".")[2] == name else f"ipu.{module}.{name}"
        for module, names in MODULES.items()
        if once[id(names)] == module
        and (name in names or module.rpartition(".")[2] == name)
    ]
    return f" There is {' and '.join(places)}." if places else ""


def resolve(module: str, name: str) -> Any:
    """The object; the queues' view of the device is in place from then on."""
    importlib.import_module("ipufeed.connect").connect()
    return getattr(importlib.import_module(module), name)


def top_level(name: str) -> Any:
    """The object of a name that Graphcore's package has itself."""
    return resolve(TOP[name], name)


_aliases: dict[str, AliasModule] = {}


def submodule(name: str) -> AliasModule:
    """One of MODULES, under ipufeed's own name.

    Where ipufeed has a file of this name (ipufeed/ops/nn_ops.py), that file is what an
    import finds, and the alias module has the same objects.
    """
    full = f"ipufeed.{name}"
    module = _aliases.get(name)
    if module is None:
        module = _aliases[name] = AliasModule(full, MODULES[name])
        if full not in MODULES[name].values():
            sys.modules[full] = module
        for other in MODULES:
            package, _, last = other.rpartition(".")
            if package == name:
                # So that its modules can be imported, and those of our folder.
                module.__path__ = [str(Path(__file__).parent / package)]
                setattr(module, last, submodule(other))
    return module


def install() -> None:
    """Makes `tensorflow.python.ipu` and its modules importable. Does no harm twice.

    It also gives back what TensorFlow has lost since (ipufeed/tf_patches/removed_names.py).

    Threads: call it before the program's own imports.
    """
    package = sys.modules.get(ALIAS)
    if package is None:
        import tensorflow.python as parent

        package = AliasModule(ALIAS, TOP)
        package.__path__ = []  # a package, so that its modules can be imported
        sys.modules[ALIAS] = package
        parent.ipu = package
    for name in MODULES:
        module = submodule(name)
        sys.modules[f"{ALIAS}.{name}"] = module
        if "." not in name:
            setattr(package, name, module)
    _put_into_keras(package)
    for name in ELSEWHERE:
        _put_elsewhere(name)
    removed_names.give_back()
    frozen_keras.install()


class ElsewhereModule(types.ModuleType):
    """A module of another name, which is imported when it is used."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, f"{name}: see {place}.")
        self.__dict__["_place"] = place
        self.__path__: list[str] = []  # popdist.tensorflow is a module in it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for some
            raise AttributeError(name)
        value = resolve(self.__dict__["_place"], name)
        setattr(self, name, value)
        return value


def _put_elsewhere(name: str) -> None:
    """Makes a module of ELSEWHERE importable, and the packages that it is in."""
    place = ELSEWHERE[name]
    if name in sys.modules:
        return
    module: types.ModuleType = ElsewhereModule(name, place)
    sys.modules[name] = module
    if name == "popdist":
        tensorflow = ElsewhereModule("popdist.tensorflow", f"{place}_tensorflow")
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


def _put_into_keras(package: Any) -> None:
    """Makes the modules of OWN importable, from Graphcore's package and from Keras's."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    kinds = LEGACY_KERAS if legacy else KERAS
    for name, own in OWN.items():
        module = importlib.import_module(own)
        sys.modules[f"{ALIAS}.{name}"] = module
        for keras in kinds:
            sys.modules[f"{keras}.{name.replace('keras', 'ipu', 1)}"] = module
    package.keras = importlib.import_module(OWN["keras"])
    for keras in kinds:
        # TensorFlow has imported Keras, if there is one; these are its lists of names.
        with contextlib.suppress(ImportError):
            vars(importlib.import_module(keras))["ipu"] = package.keras
