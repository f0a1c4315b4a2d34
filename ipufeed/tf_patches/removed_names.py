"""Restores names that TensorFlow has removed since the programs for IPUs were written.

    tf.compat.v1.layers.dense, conv2d, max_pooling2d, ...    restored: see LAYERS
    tf.function(experimental_compile=True)                   still accepted by TensorFlow
    tf.layers.batch_normalization, tf.estimator, tf.contrib  gone, and not restored

Keras 3 has no layers for version 1 graphs. TensorFlow keeps its former ones in
tensorflow.python.layers, without public names.
"""

from __future__ import annotations

import importlib
import types

from ipufeed.tf_patches.changes import add_entry

# TensorFlow's module -> the names that are restored from it.
LAYERS = {
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


def restore() -> None:
    """Restores the names that are missing. Idempotent."""
    import tensorflow as tf

    # `import tensorflow.compat.v1 as tf` creates a second module, which replaces
    # tf.compat.v1.
    both = (tf.compat.v1, importlib.import_module("tensorflow.compat.v1"))
    for public in [version_1.layers for version_1 in both]:
        for module, names in LAYERS.items():
            kept = importlib.import_module(module)
            for name in names.split():
                if not _has_name(public, name):
                    # Not setattr: it makes the lazy module load a missing module.
                    value = getattr(kept, name)
                    add_entry("tensorflow.compat.v1.layers", vars(public), name, value)


def _has_name(module: types.ModuleType, name: str) -> bool:
    """Whether a lazily loaded module, whose import may fail, has a name."""
    try:
        return hasattr(module, name)
    except ImportError:
        return False
