"""Notes and names that Graphcore's own code puts at operations; here they do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.ops import refused

_REFUSED = ("accumulate_tagged_gradients", "create_resource_update")


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        return getattr(refused, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def SetMlType(op: Any, ml_type: str) -> Any:  # noqa: N802 - the original's
    """Gives the operation back: an IPU's planner uses the type, a CPU has none."""
    del ml_type
    return op


def SetOpAsFwd(op: Any) -> Any:  # noqa: N802 - the original's
    """Gives the operation back; see SetMlType."""
    return op


def SetOpAsBwd(op: Any) -> Any:  # noqa: N802 - the original's
    """Gives the operation back; see SetMlType."""
    return op


def SetOpAsWU(op: Any) -> Any:  # noqa: N802 - the original's
    """Gives the operation back; see SetMlType."""
    return op


def HandleMatMulGrads(grads: Any) -> Any:  # noqa: N802 - the original's
    """Gives the gradients back; see SetMlType."""
    return grads


def conv_gradients_override_map() -> dict[str, str]:
    """Gives {}: TensorFlow's own gradients of convolutions are used."""
    return {}


def matmul_gradients_override_map() -> dict[str, str]:
    """Gives {}: TensorFlow's own gradients of products are used."""
    return {}


def gradients_override_map() -> dict[str, str]:
    """Gives {}: TensorFlow's own gradients are used."""
    return {}


@contextlib.contextmanager
@flags_checked
def gradient_override_scope(training: bool) -> Iterator[None]:
    """Changes nothing: TensorFlow's own gradients are used."""
    del training
    yield


def get_accumulator_dtype(variable: Any, dtype_override: Any = None) -> Any:
    """Gives the dtype in which gradients of a variable are accumulated.

    Args:
        variable: The variable.
        dtype_override: None for the variable's dtype, a dtype, or a function of the
            variable that gives one.

    Raises:
        TypeError: It is none of these.
    """
    import tensorflow as tf

    if dtype_override is None:
        return variable.dtype
    if callable(dtype_override) and not isinstance(dtype_override, type):
        return tf.as_dtype(dtype_override(variable))
    try:
        return tf.as_dtype(dtype_override)
    except TypeError:
        raise TypeError(
            "The accumulator's dtype must be None, a dtype, or a function of the "
            f"variable, got {dtype_override!r}."
        ) from None


@flags_checked
def accumulate_gradients(
    grads_and_vars: Any,
    gradient_accumulation_dtype: Any = None,
    accum_scale: Any = 1.0,
    grad_scale: Any = None,
    create_accumulator_from_shape: bool = False,
) -> list[tuple[Any, Any]]:
    """Adds gradients to accumulators that begin with zeros: those of one mini-batch.

    The accumulators do not outlive the execution. Several mini-batches are accumulated by
    optimizers.GradientAccumulationOptimizerV2 and by pipelines.

    Args:
        grads_and_vars: Pairs of a gradient and its variable. A gradient may be None.
        gradient_accumulation_dtype: Of the accumulators: see get_accumulator_dtype.
        accum_scale: What the accumulator is multiplied by before; of zeros no matter.
        grad_scale: What the gradients are multiplied by. Default: nothing.
        create_accumulator_from_shape: Whether an accumulator has the gradient's shape; else
            it has the variable's.

    Returns:
        Pairs of the accumulated gradient, of the accumulator's dtype, and the variable.
        For None there is None.

    Raises:
        TypeError: See get_accumulator_dtype.
        ValueError: A gradient has another shape than its accumulator.

    Source: Graphcore's function of this name.
    """
    import tensorflow as tf

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


def get_activation_name(identifier: Any) -> str:
    """Gives the name of an activation.

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
    """Gives "THREESTATE_ON" or "THREESTATE_OFF"; for None the default.

    Args:
        value: True, False or None.
        default: Default: "THREESTATE_UNDEFINED".
    """
    if value is None:
        return default or "THREESTATE_UNDEFINED"
    return "THREESTATE_ON" if value else "THREESTATE_OFF"
