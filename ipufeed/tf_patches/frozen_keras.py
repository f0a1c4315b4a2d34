"""`tensorflow.python.keras` as the Keras in use, for programs that import it.

TensorFlow has a third, old Keras under this name, for itself: its models are not those of
tf.keras, and no IPU runs them. Programs written for IPUs import it as they would tf.keras.

    from tensorflow.python.keras.layers import Dense   ->  tf.keras.layers.Dense
    from tensorflow.python.keras.engine import training ->  TensorFlow's own, as before
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

from ipufeed.tf_patches.changes import replace

NAME = "tensorflow.python.keras"
# TensorFlow's modules that use the old Keras have to have it before it is another one.
USERS = (
    "tensorflow.python.layers.core",
    "tensorflow.python.layers.convolutional",
    "tensorflow.python.layers.pooling",
    "tensorflow.python.ops.rnn_cell_impl",
    "tensorflow.python.training.learning_rate_decay",
)
PUBLIC = (
    *("activations", "applications", "backend", "callbacks", "constraints", "datasets"),
    *("initializers", "layers", "losses", "metrics", "mixed_precision", "models"),
    *("optimizers", "preprocessing", "regularizers", "utils"),
)


def install() -> None:
    """Puts the names into place. Does no harm twice; imports no Keras."""
    if isinstance(sys.modules.get(NAME), KerasAlias):
        return
    for user in USERS:
        importlib.import_module(user)
    import tensorflow.python as parent

    old = importlib.import_module(NAME)
    alias = sys.modules[NAME] = KerasAlias(NAME, "", old)
    replace(parent, "keras", alias)
    for name in PUBLIC:
        full = f"{NAME}.{name}"
        frozen = sys.modules.get(full)
        sys.modules[full] = KerasAlias(full, name, frozen)
    sys.meta_path.insert(0, _Finder())


class KerasAlias(types.ModuleType):
    """A module of the Keras in use; what that does not have is of the old Keras."""

    def __init__(self, name: str, path: str, frozen: Any) -> None:
        super().__init__(name, f"{name}: names of tf.keras, see ipufeed.compat.")
        own = self.__dict__
        own["_ipufeed_path"], own["_ipufeed_frozen"] = path, frozen
        own["__path__"] = list(getattr(frozen, "__path__", ()))

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name.startswith("__"):
            raise AttributeError(name)
        inner = sys.modules.get(f"{self.__name__}.{name}")
        if isinstance(inner, KerasAlias):
            return inner
        for module in (_in_use(own["_ipufeed_path"]), own["_ipufeed_frozen"]):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*dir(_in_use(self.__dict__["_ipufeed_path"]))})


def _in_use(path: str) -> Any:
    """tf.keras, or a module in it; None if there is none."""
    import tensorflow as tf

    found: Any = tf.keras
    for part in filter(None, path.split(".")):
        found = getattr(found, part, None)
    return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of modules, such as tensorflow.python.keras.datasets.mnist."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that the Keras in use has, else None."""
        first, _, inner = name.removeprefix(f"{NAME}.").partition(".")
        if not name.startswith(f"{NAME}.") or not inner or first not in PUBLIC:
            return None
        if not isinstance(_in_use(f"{first}.{inner}"), types.ModuleType):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: Any) -> Any:
        """An alias of the module."""
        return KerasAlias(spec.name, spec.name.removeprefix(f"{NAME}."), None)

    def exec_module(self, module: Any) -> None:
        """Nothing is left to be done."""
