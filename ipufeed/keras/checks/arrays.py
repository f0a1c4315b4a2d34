"""Checks of the dtypes of arrays that a call is given, and of the end of its dataset."""

from __future__ import annotations

import numbers

import tensorflow as tf
from tensorflow.python.util import nest

from ipufeed.keras.checks.arguments import refuse_unknown_size
from ipufeed.keras.checks.host_operations import refuse_texts
from ipufeed.tf_types import KerasModel, Nest

TEXTS = ("S", "U")  # kinds of NumPy's dtypes
WAYS = {
    "O": (
        "Give it a dtype of numbers, such as with `.astype('float32')`. Rows of several "
        "lengths must have one length first, such as with `keras.utils.pad_sequences`."
    ),
    "M": "Make them numbers, such as the seconds since a date.",
    "m": "Make them numbers, such as `x / np.timedelta64(1, 's')`.",
    "V": "Give its fields as arrays of their own, in a dict.",
}


def check_arrays(model: KerasModel, arguments: dict[str, Nest]) -> None:
    """Raises an error for data without rows, or whose elements are not numbers.

    Args:
        model: The Keras model.
        arguments: Nested arrays by the names of the caller's arguments. Tensors and
            datasets are checked later.

    Raises:
        UnsupportedElementError: An array of texts.
        TypeError: A scalar in the place of arrays.
        ValueError: One of objects, times or records.
    """
    for name, value in arguments.items():
        _check_rows(name, value)
        for path, leaf in nest.flatten_with_tuple_paths(value):
            for dtype in _dtypes(leaf):
                kind = getattr(dtype, "kind", None)
                if kind not in TEXTS and kind not in WAYS:
                    continue
                where = f"`{name}{''.join(f'[{part!r}]' for part in path)}`"
                if kind in TEXTS:
                    refuse_texts(model, where, f"dtype {dtype}")
                raise ValueError(
                    f"{where} must have a dtype of numbers, which a compiled program "
                    f"takes, got {dtype}. {WAYS[kind]}"
                )


def _check_rows(name: str, value: Nest) -> None:
    """Raises TypeError for a scalar in the place of arrays."""
    kinds = "arrays or tensors with a row for each of `x`"
    parts = [(name, value)]
    if name == "validation_data":
        kinds = "a tuple of arrays or tensors, a tf.data.Dataset or a generator"
        if isinstance(value, (tuple, list)):
            kinds = "arrays or tensors, with a row for each sample"
            parts = [(f"{name}[{n}]", part) for n, part in enumerate(value)]
    for part, scalar in parts:
        is_scalar = isinstance(scalar, (bool, numbers.Number, str, bytes))
        if is_scalar or getattr(scalar, "shape", None) == ():
            raise TypeError(
                f"`{part}` must be {kinds}, got {type(scalar).__name__} {scalar!r}."
            )


def _dtypes(leaf: Nest) -> list[object]:
    """Returns the dtypes of an array or a table; those of others are not NumPy's."""
    columns = getattr(leaf, "dtypes", None)  # of pandas
    if columns is not None and hasattr(columns, "tolist"):
        return list(columns.tolist())
    return [getattr(leaf, "dtype", None)]


def check_end(data: Nest, steps: object, argument: str) -> None:
    """Raises ValueError for a dataset without an end if the caller gives no steps.

    Args:
        data: The `x` of a call.
        steps: The steps of an epoch; None: all of the data.
        argument: The name of the caller's argument for the steps.
    """
    if steps is None and isinstance(data, tf.data.Dataset):
        with tf.device("/device:CPU:0"):
            size = int(data.cardinality())
        if size == tf.data.INFINITE_CARDINALITY:
            refuse_unknown_size(argument, endless=True)
