"""Checks of the arguments of recurrent layers, when a layer is made."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from ipufeed.checks import as_count, as_int, as_partials_dtype, as_tensor, check_name
from ipufeed.ops.nn_ops import hard_sigmoid
from ipufeed.ops.op_util import get_activation_name
from ipufeed.tf_types import DType, Tensor, TensorLike

RECURRENT: dict[str, Callable[[Tensor], Tensor]] = {
    "hard_sigmoid": hard_sigmoid,
    "sigmoid": tf.sigmoid,
    "softmax": tf.nn.softmax,
    "tanh": tf.tanh,
}
ACTIVATIONS = {**RECURRENT, "relu": tf.nn.relu}
_MOST_UNITS = 2**28  # so that those of all gates are an int32


def as_units(num_units: object) -> int:
    """Returns the number of units; raises TypeError or ValueError for another value."""
    units = as_count("num_units", num_units)
    if units > _MOST_UNITS:
        raise ValueError(f"`num_units` must be at most {_MOST_UNITS}, got {units}.")
    return units


def as_layer_dtype(dtype: object) -> DType:
    """Returns the dtype of a layer.

    Raises:
        TypeError: It is not a dtype.
        ValueError: The layer does not compute in it.
    """
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        raise TypeError(
            f"`dtype` must be tf.float16 or tf.float32, got {type(dtype).__name__} "
            f"{dtype!r}."
        ) from None
    if found not in (tf.float16, tf.float32):
        raise ValueError(f"Only support float16, float32, provided {dtype}")
    return found


def as_state(name: str, value: TensorLike, inputs: Tensor, units: int) -> Tensor:
    """Converts a part of a layer's state to the dtype of its inputs.

    Args:
        name: The argument, for the error.
        value: The part.
        inputs: [time, batch, features].
        units: The number of units.

    Raises:
        TypeError: It is not a tensor, and does not convert to one.
        ValueError: Its shape is not [batch, units], or its dtype is another one.
    """
    state = as_tensor(name, value, inputs.dtype)
    batch = tf.compat.dimension_value(inputs.shape[1])
    if not state.shape.is_compatible_with([batch, units]):
        size = "batch" if batch is None else batch
        raise ValueError(
            f"`{name}` must be [{size}, {units}], the batch of the inputs and the units of "
            f"the layer, got {state.shape}."
        )
    return state


def check_others(
    name: object, seed: object, partials_dtype: object, **initializers: object
) -> DType:
    """Checks what a layer would use when it is built; returns the dtype of partials.

    Raises:
        TypeError: An argument is of another type.
    """
    check_name(name)
    if seed is not None:
        as_int("seed", seed, " or None")
    for argument, value in initializers.items():
        if value is None or callable(value) or isinstance(value, (str, dict)):
            continue
        raise TypeError(
            f"`{argument}` must be an initializer, its name or None, got "
            f"{type(value).__name__} {value!r}."
        )
    return as_partials_dtype(partials_dtype)


def activation(
    argument: str, value: object, known: dict[str, Callable[[Tensor], Tensor]]
) -> Callable[[Tensor], Tensor]:
    """Returns the function of an activation, given as it is or by its name.

    Raises:
        TypeError: It is neither.
        ValueError: The layer does not have it.
    """
    if not callable(value) and not isinstance(value, str):
        raise TypeError(
            f"`{argument}` must be a name or a function, got {type(value).__name__} "
            f"{value!r}."
        )
    name = get_activation_name(value)
    if name not in known:
        raise ValueError(
            f"`{argument}` must be one of {', '.join(known)}, got {value!r}."
        )
    return known[name]
