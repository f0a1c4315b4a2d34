"""Utilities of Graphcore's own code; attributes of operations have no effect here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from ipufeed.checks import dtype_or_none, flags_checked
from ipufeed.ops import refused
from ipufeed.tf_types import DType, Nest, Operation, Tensor, TensorLike, Variable

_REFUSED = ("accumulate_tagged_gradients", "create_resource_update")


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        return getattr(refused, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def SetMlType(op: Operation, ml_type: str) -> Operation:  # noqa: N802 - Graphcore's name
    """Returns the operation: only an IPU's planner uses the type."""
    del ml_type
    return op


def SetOpAsFwd(op: Operation) -> Operation:  # noqa: N802 - Graphcore's name
    """Returns the operation; see SetMlType."""
    return op


def SetOpAsBwd(op: Operation) -> Operation:  # noqa: N802 - Graphcore's name
    """Returns the operation; see SetMlType."""
    return op


def SetOpAsWU(op: Operation) -> Operation:  # noqa: N802 - Graphcore's name
    """Returns the operation; see SetMlType."""
    return op


def HandleMatMulGrads(grads: Nest) -> Nest:  # noqa: N802 - Graphcore's name
    """Returns the gradients; see SetMlType."""
    return grads


def conv_gradients_override_map() -> dict[str, str]:
    """Returns {}: TensorFlow's own gradients of convolutions are used."""
    return {}


def matmul_gradients_override_map() -> dict[str, str]:
    """Returns {}: TensorFlow's own gradients of products are used."""
    return {}


def gradients_override_map() -> dict[str, str]:
    """Returns {}: TensorFlow's own gradients are used."""
    return {}


@contextlib.contextmanager
@flags_checked
def gradient_override_scope(training: bool) -> Iterator[None]:
    """Returns a scope in which gradients are TensorFlow's own, as everywhere."""
    del training
    yield


def get_accumulator_dtype(variable: Variable, dtype_override: object = None) -> DType:
    """Returns the dtype in which gradients of a variable are accumulated.

    Args:
        variable: The variable.
        dtype_override: None for the variable's dtype, a dtype, or a function of the
            variable that returns one.

    Raises:
        TypeError: It is none of these.
    """
    if dtype_override is None:
        return variable.dtype
    if callable(dtype_override) and not isinstance(dtype_override, type):
        return tf.as_dtype(dtype_override(variable))
    dtype = dtype_or_none(dtype_override)
    if dtype is None:
        raise TypeError(
            "The accumulator's dtype must be None, a dtype, or a function of the "
            f"variable, got {dtype_override!r}."
        )
    return dtype


@flags_checked
def accumulate_gradients(
    grads_and_vars: Iterable[tuple[Tensor | None, Variable]],
    gradient_accumulation_dtype: object = None,
    accum_scale: TensorLike = 1.0,
    grad_scale: TensorLike | None = None,
    create_accumulator_from_shape: bool = False,
) -> list[tuple[Tensor | None, Variable]]:
    """Adds the gradients of one mini-batch to accumulators of zeros.

    The accumulators exist during one execution. To accumulate several mini-batches use
    optimizers.GradientAccumulationOptimizerV2 or pipelines.

    Args:
        grads_and_vars: Pairs of a gradient and its variable. A gradient may be None.
        gradient_accumulation_dtype: The accumulators' dtype: see get_accumulator_dtype.
        accum_scale: A factor of the accumulator before the sum, which is zero.
        grad_scale: A factor of the gradients. Default: 1.
        create_accumulator_from_shape: Whether an accumulator has the gradient's shape; else
            it has the variable's.

    Returns:
        Pairs of the accumulated gradient, of the accumulator's dtype, and the variable.
        The result for None is None.

    Raises:
        TypeError: See get_accumulator_dtype.
        ValueError: A gradient has another shape than its accumulator.

    Source: Graphcore's function of this name.
    """
    accumulated = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            accumulated.append((None, variable))
            continue
        dense = tf.convert_to_tensor(gradient)
        if grad_scale is not None:
            dense *= tf.cast(grad_scale, dense.dtype)
        dtype = get_accumulator_dtype(variable, gradient_accumulation_dtype)
        shape = dense.shape if create_accumulator_from_shape else variable.shape
        if not dense.shape.is_compatible_with(shape):
            raise ValueError(
                f"The gradient of {variable.name} must have its shape {shape}, got "
                f"{dense.shape}."
            )
        accumulator = tf.zeros(shape, dtype) * tf.cast(accum_scale, dtype)
        accumulated.append((accumulator + tf.cast(dense, dtype), variable))
    return accumulated


def get_activation_name(identifier: object) -> str:
    """Returns the name of an activation.

    Args:
        identifier: A name, or a function such as tf.nn.relu.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(identifier, str):
        return identifier
    name = getattr(identifier, "__name__", None)
    if callable(identifier) and isinstance(name, str):
        return name
    raise TypeError(
        "An activation must be a name or a function, got "
        f"{type(identifier).__name__} {identifier!r}."
    )


@flags_checked
def bool_to_three_state(value: bool | None, default: str | None = None) -> str:
    """Returns "THREESTATE_ON" or "THREESTATE_OFF"; for None the default.

    Args:
        value: True, False or None.
        default: Default: "THREESTATE_UNDEFINED".
    """
    if value is None:
        return default or "THREESTATE_UNDEFINED"
    return "THREESTATE_ON" if value else "THREESTATE_OFF"
