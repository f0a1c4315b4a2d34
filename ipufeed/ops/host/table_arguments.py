"""Checks of the arguments of host embeddings, and their first values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.checks import as_number, as_shape, as_tensor, dtype_or_none
from ipufeed.tf_types import DType, Shape, Tensor, TensorLike

DTYPES = ("float16", "float32", "int32", "uint32")
SHAPE = "The shape of a host embedding must be [tokens, width], both at least 1"


def maker(initializer: Any, shape: Shape, dtype: DType) -> Callable[[], Tensor]:
    """Returns the function that creates a table's first value.

    Raises:
        TypeError, ValueError: It is not an initializer, or a tensor of another shape.
    """
    if isinstance(initializer, str):
        raise TypeError(
            "`initializer` must be a tensor or an initializer such as "
            f"tf.keras.initializers.RandomNormal(), got str {initializer!r}."
        )
    if isinstance(initializer, type):
        initializer = initializer()  # as get_variable does
    if initializer is None:
        return lambda: tf.zeros(shape, dtype)
    if callable(initializer):
        return lambda: _of_shape(initializer(shape, dtype), shape)
    value = _of_shape(initializer, shape)
    return lambda: tf.cast(value, dtype)


def _of_shape(value: TensorLike, shape: Shape) -> Tensor:
    """Returns a tensor of numbers; raises TypeError or ValueError for another value."""
    tensor = as_tensor("initializer", value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError(
            f"`initializer` must be a tensor of numbers, got {tensor.dtype.name}."
        )
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"`initializer` must have the table's shape {shape}, got {tensor.shape}: "
            "give `shape` and the initializer the same [tokens, width]."
        )
    return tensor


def as_rate(rate: Any) -> float:
    """Returns a learning rate as a float.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not finite.
    """
    if tf.is_tensor(rate):
        rate = tf.get_static_value(rate)
    if isinstance(rate, (np.ndarray, np.generic)) and rate.size == 1:
        rate = rate.item()
    value = as_number("learning_rate", rate)
    if not math.isfinite(value):
        raise ValueError(f"`learning_rate` must be a finite number, got {value}.")
    return value


def check_name(name: object) -> None:
    """Raises TypeError unless the name is a str."""
    if not isinstance(name, str):
        raise TypeError(
            f"The name of a host embedding must be a str, got {type(name).__name__} "
            f"{name!r}."
        )


def as_table(shape: object, dtype: object) -> tuple[Shape, DType]:
    """Returns the shape and the dtype of a table.

    Raises:
        TypeError, ValueError: They are not, or those that no table can have.
    """
    as_dtype = dtype_or_none(dtype)
    if as_dtype is None:
        raise TypeError(
            f"The dtype of a host embedding must be one of {', '.join(DTYPES)}, got "
            f"{type(dtype).__name__} {dtype!r}."
        )
    found = as_shape(SHAPE, shape)
    check_table(found, as_dtype)
    return found, as_dtype


def check_table(shape: Shape, dtype: DType) -> None:
    """Raises TypeError or ValueError unless a table can have the dtype and the shape."""
    if dtype.name not in DTYPES:
        raise TypeError(
            f"The dtype of a host embedding must be one of {', '.join(DTYPES)}, got "
            f"{dtype.name}."
        )
    if shape.rank != 2 or not shape.is_fully_defined() or 0 in shape.as_list():
        raise ValueError(f"{SHAPE}, got {shape}.")
