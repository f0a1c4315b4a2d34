"""Makes `tensorflow.python.keras` the Keras in use, for programs that import it.

TensorFlow keeps an old Keras under this name for itself: its models are not those of
tf.keras, and IPUs do not run them. Programs written for IPUs import it like tf.keras.

    from tensorflow.python.keras.layers import Dense   ->  tf.keras.layers.Dense
    from tensorflow.python.keras.optimizer_v2.adam import Adam -> tf.keras.optimizers.Adam
    from tensorflow.python.keras.engine import training ->  TensorFlow's, as before

With tf_keras the optimizers of `optimizer_v2` are those of `optimizers.legacy`, which are
the same.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any

from ipufeed.tf_patches.changes import replace

NAME = "tensorflow.python.keras"
# Modules of TensorFlow that use the old Keras must import it before it is replaced.
USERS = (
    "tensorflow.python.keras.engine.base_layer_v1",
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
# Modules of the old Keras's optimizers, which programs import by their place.
OPTIMIZERS = (
    *("adadelta", "adagrad", "adam", "adamax", "ftrl", "gradient_descent", "nadam"),
    "rmsprop",
)


def is_legacy() -> bool:
    """Whether tf.keras is tf_keras, as TensorFlow decides when it is imported."""
    return os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")


def install() -> None:
    """Installs the aliases, without importing Keras. Idempotent."""
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
    _put_optimizers()
    sys.meta_path.insert(0, _Finder())


def _put_optimizers() -> None:
    """Lets the modules of `optimizer_v2` have the optimizers of the Keras in use."""
    path = "optimizers.legacy" if is_legacy() else "optimizers"
    package = importlib.import_module(f"{NAME}.optimizer_v2")
    places = dict.fromkeys(OPTIMIZERS, path)
    places["learning_rate_schedule"] = "optimizers.schedules"
    for name, place in places.items():
        full = f"{NAME}.optimizer_v2.{name}"
        alias = KerasAlias(full, place, importlib.import_module(full))
        sys.modules[full] = package.__dict__[name] = alias


class KerasAlias(types.ModuleType):
    """A module of the Keras in use, with the old Keras's for names that it lacks."""

    def __init__(self, name: str, path: str, frozen: types.ModuleType | None) -> None:
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
    """Returns tf.keras or a module in it; None if it does not exist."""
    import tensorflow as tf

    found: Any = tf.keras
    for part in filter(None, path.split(".")):
        found = getattr(found, part, None)
    return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds nested modules, such as tensorflow.python.keras.datasets.mnist."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a module that the Keras in use has, else None."""
        first, _, inner = name.removeprefix(f"{NAME}.").partition(".")
        if not name.startswith(f"{NAME}.") or not inner or first not in PUBLIC:
            return None
        if not isinstance(_in_use(f"{first}.{inner}"), types.ModuleType):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Returns an alias of the module."""
        return KerasAlias(spec.name, spec.name.removeprefix(f"{NAME}."), None)

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the alias is complete."""
