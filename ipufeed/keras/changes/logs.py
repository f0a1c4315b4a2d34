"""Lets Ctrl-C end a `fit` of Keras 3 in which it comes while logs are converted.

Keras converts the logs of each call of a callback under a bare `except`, which also drops
the KeyboardInterrupt: with executions of less than a millisecond one in fifty was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import keras
from keras.src.utils import python_utils

from ipufeed.tf_patches.changes import replace


def raise_interrupts() -> None:
    """Changes what a CallbackList calls, for models without an IPU too."""
    replace(python_utils, "pythonify_logs", _as_numbers)


def _as_numbers(logs: Mapping[str, object] | None) -> dict[str, object]:
    """Returns logs with numbers where a value can be one, without levels, in order."""
    found: dict[str, object] = {}
    for name, value in sorted((logs or {}).items()):
        if isinstance(value, dict):
            found |= _as_numbers(value)
        else:
            found[name] = _as_number(value)
    return found


def _as_number(value: object) -> object:
    with contextlib.suppress(Exception):
        if keras.ops.is_tensor(value):
            value = keras.ops.convert_to_numpy(value)
        return float(value)  # type: ignore[arg-type]
    return value
