"""Names that TensorFlow has lost since the programs for IPUs were written.

    tf.compat.v1.layers.dense, conv2d, max_pooling2d, ...    given back: see LAYERS
    tf.function(experimental_compile=True)                   TensorFlow still takes it
    tf.layers.batch_normalization, tf.estimator, tf.contrib  gone, and not given back

Keras 3 has no layers for version 1 graphs. TensorFlow keeps those it had before, in
tensorflow.python.layers, without a public name.
"""

from __future__ import annotations

import importlib
from typing import Any

# Where TensorFlow keeps them -> those that are given back.
LAYERS = {
    "tensorflow.python.layers.core": (
        "Dense",
        "Dropout",
        "Flatten",
        "dense",
        "dropout",
        "flatten",
    ),
    "tensorflow.python.layers.convolutional": (
        "Conv1D",
        "Conv2D",
        "Conv2DTranspose",
        "Conv3D",
        "Conv3DTranspose",
        "SeparableConv1D",
        "SeparableConv2D",
        "conv1d",
        "conv2d",
        "conv2d_transpose",
        "conv3d",
        "conv3d_transpose",
        "separable_conv1d",
        "separable_conv2d",
    ),
    "tensorflow.python.layers.pooling": (
        "AveragePooling1D",
        "AveragePooling2D",
        "AveragePooling3D",
        "MaxPooling1D",
        "MaxPooling2D",
        "MaxPooling3D",
        "average_pooling1d",
        "average_pooling2d",
        "average_pooling3d",
        "max_pooling1d",
        "max_pooling2d",
        "max_pooling3d",
    ),
}


def give_back() -> None:
    """Puts the names where they were, unless they are there. Does no harm twice."""
    import tensorflow as tf

    # `import tensorflow.compat.v1 as tf` makes another module than tf.compat.v1 has been
    # until then, and puts it in its place.
    both = (tf.compat.v1, importlib.import_module("tensorflow.compat.v1"))
    for public in [version_1.layers for version_1 in both]:
        for module, names in LAYERS.items():
            kept = importlib.import_module(module)
            for name in names:
                if not has(public, name):
                    # Not setattr: the lazy module would first load what is not there.
                    vars(public)[name] = getattr(kept, name)


def has(module: Any, name: str) -> bool:
    """Whether a lazily loaded module has a name: looking may fail to import it."""
    try:
        return hasattr(module, name)
    except ImportError:
        return False
