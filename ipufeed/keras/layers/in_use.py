"""Selects the Keras of `tf.keras`: Keras 3, or tf_keras.

TensorFlow selects by the environment variable TF_USE_LEGACY_KERAS when it is imported. The
classes of this package derive from those of the selected Keras.
"""

from __future__ import annotations

from typing import Any

from ipufeed.tf_patches.frozen_keras import is_legacy


def _load() -> Any:
    """Imports the selected Keras.

    Raises:
        ImportError: tf_keras is selected, and not installed.
    """
    if not is_legacy():
        import keras

        return keras
    try:
        import tf_keras

        return tf_keras
    except ImportError as error:
        raise ImportError(
            "TF_USE_LEGACY_KERAS is set, and tf_keras is not installed: "
            "`pip install 'ipufeed[legacy_keras]'`, or unset the variable for Keras 3."
        ) from error


keras: Any = _load()
