"""Restores names that TensorFlow has removed since the programs for IPUs were written.

    tf.compat.v1.layers.dense, conv2d, max_pooling2d, ...    restored: see LAYERS
    tf.compat.v1.layers.batch_normalization                  that of tf_keras: see NORMS
    tf.compat.v1.nn.rnn_cell.LSTMCell, GRUCell, ...          restored: see CELLS
    tf.keras.losses.mean_squared_error, also of metrics      restored: see FUNCTIONS
    tf.keras.layers.experimental.preprocessing.Rescaling     restored: see EXPERIMENTAL
    tf.function(experimental_compile=True)                   still accepted by TensorFlow
    tf.estimator                                             see estimators/
    tf.contrib                                               gone, and not restored

Keras 3 has no layers for version 1 graphs. TensorFlow keeps its former ones in
tensorflow.python.layers, without public names, and cells in tensorflow.python.ops.
Functions of losses have the names of Keras 2 in keras.losses, and not in tf.keras; what was
experimental there has another place.
tf_keras has all of these but `mixed_precision.experimental`.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from ipufeed.tf_patches.changes import add_entry, replace
from ipufeed.tf_patches.frozen_keras import is_legacy

# TensorFlow's module -> the names that are restored from it.
LAYERS = {
    "tensorflow.python.layers.base": "InputSpec Layer",
    "tensorflow.python.layers.core": "Dense Dropout Flatten dense dropout flatten",
    "tensorflow.python.layers.convolutional": (
        "Conv1D Conv2D Conv2DTranspose Conv3D Conv3DTranspose SeparableConv1D "
        "SeparableConv2D conv1d conv2d conv2d_transpose conv3d conv3d_transpose "
        "separable_conv1d separable_conv2d"
    ),
    "tensorflow.python.layers.pooling": (
        "AveragePooling1D AveragePooling2D AveragePooling3D MaxPooling1D MaxPooling2D "
        "MaxPooling3D average_pooling1d average_pooling2d average_pooling3d "
        "max_pooling1d max_pooling2d max_pooling3d"
    ),
}

CELLS = {
    "tensorflow.python.ops.rnn_cell_impl": (
        "BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell "
        "LSTMStateTuple MultiRNNCell RNNCell ResidualWrapper"
    ),
}
NORMS = ("BatchNormalization", "batch_normalization")
NORMS_PLACE = "tensorflow.python.layers.normalization"
# What tf.keras is: a module of Keras 3 or of tf_keras, which programs import as PUBLIC.
KERAS_3, KERAS_2 = "keras._tf_keras.keras", "tf_keras.api._v2.keras"
PUBLIC = "tensorflow.keras"
# Its modules that get names.
CHANGED = ("layers", "losses", "metrics", "mixed_precision")
# Of tf.keras.losses and tf.keras.metrics.
FUNCTIONS = (
    *("kl_divergence", "log_cosh", "mean_absolute_error", "mean_squared_error"),
    *("mean_absolute_percentage_error", "mean_squared_logarithmic_error"),
)
# Modules of Keras 2 -> the names in them, and their places in tf.keras.
EXPERIMENTAL = {
    "layers.experimental.preprocessing": {
        name: f"layers.{name}"
        for name in (
            *("CategoryEncoding", "CenterCrop", "Discretization", "Hashing"),
            *("IntegerLookup", "Normalization", "RandomContrast", "RandomCrop"),
            *("RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom"),
            *("Rescaling", "Resizing", "StringLookup", "TextVectorization"),
        )
    },
    "experimental": {
        name: f"optimizers.schedules.{name}"
        for name in ("CosineDecay", "CosineDecayRestarts")
    },
    "mixed_precision.experimental": {
        "Policy": "mixed_precision.Policy",
        "global_policy": "mixed_precision.global_policy",
        "set_policy": "mixed_precision.set_global_policy",
    },
}


def restore() -> None:
    """Restores the names that are missing. Idempotent."""
    _restore_layers()
    # TensorFlow has imported Keras, if it is installed.
    tf_keras = sys.modules.get(KERAS_2 if is_legacy() else KERAS_3)
    if tf_keras is not None:
        _restore_keras(tf_keras)


def _version_1_modules() -> tuple[types.ModuleType, types.ModuleType]:
    """Returns both modules of version 1.

    `import tensorflow.compat.v1 as tf` creates a second one, which replaces tf.compat.v1.
    """
    import tensorflow as tf

    return tf.compat.v1, importlib.import_module("tensorflow.compat.v1")


def restore_in_version_1(name: str, module: types.ModuleType) -> None:
    """Restores a module that tf.compat.v1 had, if it is missing. Idempotent.

    Args:
        name: The module's name in it.
        module: What takes its place.
    """
    for version_1 in _version_1_modules():
        _restore_entry(version_1, "tensorflow.compat.v1", name, module)


def _restore_layers() -> None:
    for version_1 in _version_1_modules():
        for public, place, kept in (
            (version_1.layers, "tensorflow.compat.v1.layers", LAYERS),
            (version_1.nn.rnn_cell, "tensorflow.compat.v1.nn.rnn_cell", CELLS),
        ):
            # Otherwise an import makes a second module of it, without the names.
            sys.modules.setdefault(place, public)
            for module, names in kept.items():
                source = importlib.import_module(module)
                for name in names.split():
                    _restore_entry(public, place, name, getattr(source, name))
        former = importlib.import_module(NORMS_PLACE)
        for name in NORMS:
            made = _of_tf_keras(name)
            _restore_entry(version_1.layers, "tensorflow.compat.v1.layers", name, made)
            _restore_entry(former, NORMS_PLACE, name, made)


def _restore_entry(
    public: types.ModuleType, place: str, name: str, value: object
) -> None:
    if not _has_name(public, name):
        # Not setattr: it makes the lazy module load a missing module.
        add_entry(place, vars(public), name, value)


def _of_tf_keras(name: str) -> Callable[..., Any]:
    """Returns a function that calls the one of tf_keras, which it imports then."""

    def made(*arguments: Any, **keywords: Any) -> Any:
        try:
            module = importlib.import_module(
                "tf_keras.src.legacy_tf_layers.normalization"
            )
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"tf.layers.{name} is of Keras 2, and tf_keras is not installed: pip "
                "install 'ipufeed[legacy_keras]'."
            ) from error
        return getattr(module, name)(*arguments, **keywords)

    made.__name__ = made.__qualname__ = name
    return made


def _restore_keras(tf_keras: types.ModuleType) -> None:
    public = importlib.import_module(PUBLIC)
    sys.modules.setdefault("tensorflow.compat.v1.keras", _version_1_modules()[0].keras)
    for name in CHANGED:
        # Otherwise an import makes a second module of it, without the names.
        sys.modules.setdefault(f"{PUBLIC}.{name}", getattr(tf_keras, name))
    for kind in ("losses", "metrics"):
        for module in getattr(tf_keras, kind), sys.modules[f"{PUBLIC}.{kind}"]:
            for name in FUNCTIONS:
                if not hasattr(module, name):
                    source = importlib.import_module("keras.losses")
                    replace(module, name, getattr(source, name))
    for path, names in EXPERIMENTAL.items():
        parent = path.partition("experimental")[0].removesuffix(".")
        owners = [_found(tf_keras, parent), _found(public, parent)]
        if parent:
            owners.append(sys.modules[f"{PUBLIC}.{parent}"])
        if all(hasattr(owner, "experimental") for owner in owners):
            continue
        package, added = _experimental(tf_keras, path, names)
        for owner in owners:
            if not hasattr(owner, "experimental"):
                replace(owner, "experimental", package)
        for top in tf_keras.__name__, PUBLIC:
            for each in package, added:  # for `from tensorflow.keras... import`
                name = each.__name__.replace(tf_keras.__name__, top, 1)
                sys.modules.setdefault(name, each)


def _experimental(
    tf_keras: types.ModuleType, path: str, names: dict[str, str]
) -> tuple[types.ModuleType, types.ModuleType]:
    """Returns a module `experimental`, and the one that has the names: it, or in it."""
    last = path.partition("experimental")[2]
    added = package = types.ModuleType(
        f"{tf_keras.__name__}.{path}", "Names of Keras 2."
    )
    if last:
        package = types.ModuleType(added.__name__.removesuffix(last))
        package.__path__ = []
        setattr(package, last.removeprefix("."), added)
    for name, place in names.items():
        setattr(added, name, _found(tf_keras, place))
    return package, added


def _found(module: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        module = getattr(module, part)
    return module


def _has_name(module: types.ModuleType, name: str) -> bool:
    """Whether a lazily loaded module, whose import may fail, has a name."""
    try:
        return hasattr(module, name)
    except ImportError:
        return False
