"""gen_poputil_ops: raw operations of gradient accumulation, barriers and hints.

Source: names and arguments are those of Graphcore's module
tensorflow.compiler.plugin.poplar.ops.gen_poputil_ops.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.checks import as_count, as_numbers, dtype_or_none, flags_checked
from ipufeed.device.program.training_loop import training_loop
from ipufeed.device.program.variables import contents_of
from ipufeed.ops import control_flow_ops
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.accumulator import Accumulator
from ipufeed.programs import accumulated_uses
from ipufeed.tf_types import DType, Nest, Operation, Shape, Tensor, TensorLike, Variable


@flags_checked
def ipu_stateful_gradient_accumulate(
    input: TensorLike,  # noqa: A002 - Graphcore's name
    num_mini_batches: int,
    verify_usage: bool = True,
    name: str | None = None,
) -> Tensor:
    """Returns the sum of a group at its last iteration of a loop, before zeros.

    Args:
        input: The tensor to sum over the `num_mini_batches` iterations of a group.
        num_mini_batches: Must divide the count of the loop: loops.repeat, or tf.while_loop.
        verify_usage: Whether the result must be used by the update of a variable, with at
            most a cross-replica sum in between. In eager mode its use is not checked.
        name: The operation's name.

    Raises:
        TypeError: `num_mini_batches` is not an int, or `input` is of text.
        ValueError: It is less than 1.
        tf.errors.FailedPreconditionError: At the run: there is no such loop, or its count
            is not a multiple; or the result is used otherwise than `verify_usage` says.
    """
    num_mini_batches = as_count("num_mini_batches", num_mini_batches)
    value = as_numbers("input", input)
    if num_mini_batches == 1:
        return tf.identity(value, name=name)
    loop = training_loop()
    checked = loop.require_multiple(num_mini_batches)
    if loop.iteration is None:
        with tf.control_dependencies([checked]):
            return tf.identity(value, name=name)
    accumulator = Accumulator(
        value.shape, value.dtype, loop, name or "gradient_accumulator"
    )
    position = loop.iteration % num_mini_batches
    total = tf.where(tf.equal(position, 0), value, accumulator.value() + value)
    with tf.control_dependencies(accumulator.store(total)):
        is_last = tf.equal(position, num_mini_batches - 1)
        result = tf.where(is_last, total, tf.zeros_like(total), name=name)
    if verify_usage and not tf.executing_eagerly():
        loop.use_checks.append(accumulated_uses.checked(result))
    return result


def ipu_stateful_gradient_accumulate_with_momentum(
    accum: TensorLike,
    grad: TensorLike,
    momentum: TensorLike,
    num_mini_batches: int,
    name: str | None = None,
) -> Tensor:
    """Adds to a variable that is multiplied by `momentum` at the start of each group.

    Args:
        accum: The variable, or its handle.
        grad: The tensor to add in each iteration.
        momentum: A scalar.
        num_mini_batches: The iterations of a group; it must divide the loop's count.
        name: The operation's name.

    Returns:
        Zeros; in the last iteration of a group the variable's value.

    Raises:
        TypeError, ValueError: `num_mini_batches` is not an int of at least 1, `accum` is
            not a variable, or `grad` has another dtype or shape, or `momentum` a shape.
        tf.errors.FailedPreconditionError: See ipu_stateful_gradient_accumulate.
    """
    num_mini_batches = as_count("num_mini_batches", num_mini_batches)
    handle, dtype, shape = _variable("accum", accum)
    gradient = as_numbers("grad", grad)
    _check_like("grad", gradient, "accum", dtype, shape)
    momentum = _scalar("momentum", momentum)
    loop = training_loop()
    checked = loop.require_multiple(num_mini_batches)
    position = tf.constant(0, tf.int64) if loop.iteration is None else loop.iteration
    position = position % num_mini_batches
    with tf.control_dependencies([] if checked is None else [checked]):
        before = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
    first = tf.equal(position, 0)
    total = tf.where(first, before * tf.cast(momentum, dtype), before) + gradient
    stored = tf.raw_ops.AssignVariableOp(resource=handle, value=total)
    with tf.control_dependencies([] if stored is None else [stored]):
        is_last = tf.equal(position, num_mini_batches - 1)
        return tf.where(is_last, total, tf.zeros_like(total), name=name)


def _variable(name: str, value: object) -> tuple[Tensor, DType, Shape]:
    """Returns the handle, the dtype and the shape of a variable, or of its handle."""
    handle: Any = getattr(value, "handle", value)
    if not tf.is_tensor(handle) or handle.dtype != tf.resource:
        raise TypeError(
            f"`{name}` must be a resource variable, or its handle, got "
            f"{type(value).__name__} {value!r}."
        )
    return handle, *contents_of(handle)


def _check_like(
    name: str, tensor: Tensor, other: str, dtype: DType | None, shape: Shape
) -> None:
    """Raises unless a tensor has a dtype (None: any) and a shape: nothing broadcasts."""
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(
            f"`{name}` must be of {dtype.name}, as `{other}` is, got {tensor.dtype.name}. "
            "Cast it with tf.cast."
        )
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"`{name}` must have the shape {shape} of `{other}`, got {tensor.shape}."
        )


def _scalar(name: str, value: TensorLike) -> Tensor:
    tensor = as_numbers(name, value)
    if not tensor.shape.is_compatible_with([]):
        raise ValueError(f"`{name}` must be a scalar, got the shape {tensor.shape}.")
    return tensor


def _zeros(shape: Shape, output_type: DType, name: str | None) -> Tensor:
    dtype = dtype_or_none(output_type)
    if dtype is None or not (dtype.is_floating or dtype.is_integer or dtype.is_complex):
        raise TypeError(
            f"`output_type` must be a dtype of numbers, as tf.float32, got {output_type!r}."
        )
    return tf.zeros(shape, dtype, name=name)


def gradient_accumulator_create(
    variable: Variable, output_type: DType, name: str | None = None
) -> Tensor:
    """Returns zeros of a variable's shape (or its handle's) and a dtype.

    Raises:
        TypeError: It is not a variable, or the dtype is none of numbers.
    """
    return _zeros(_variable("variable", variable)[-1], output_type, name)


def gradient_accumulator_create_from_shape(
    shape: Shape, output_type: DType, name: str | None = None
) -> Tensor:
    """Returns zeros of a shape and a dtype.

    Raises:
        TypeError: The dtype is none of numbers, or the shape is none.
        ValueError: The shape is not fully defined.
    """
    known = tf.get_static_value(shape) if tf.is_tensor(shape) else shape
    try:
        sizes = tf.TensorShape(known)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"`shape` must be a shape, as [2, 3], got {shape!r}: {error}"
        ) from error
    if not sizes.is_fully_defined():
        raise ValueError(
            f"`shape` must be fully defined when the program is built, got {shape!r}."
        )
    return _zeros(sizes, output_type, name)


def gradient_accumulator_add_with_scale(
    accumulator: TensorLike,
    gradients: TensorLike,
    accumulator_scale: TensorLike,
    name: str | None = None,
) -> Tensor:
    """Returns accumulator * accumulator_scale + gradients, in the accumulator's dtype.

    Raises:
        TypeError: An argument is of text.
        ValueError: The gradients have another shape, or the scale is not a scalar.
    """
    accumulator = as_numbers("accumulator", accumulator)
    gradients = as_numbers("gradients", gradients)
    _check_like("gradients", gradients, "accumulator", None, accumulator.shape)
    dtype = accumulator.dtype
    scale = _scalar("accumulator_scale", accumulator_scale)
    scaled = accumulator * tf.cast(scale, dtype)
    return tf.add(scaled, tf.cast(gradients, dtype), name=name)


def gradient_accumulator_sink(
    input: TensorLike,  # noqa: A002 - Graphcore's name
    name: str | None = None,
) -> Tensor:
    """Returns the same tensor."""
    return tf.identity(as_numbers("input", input), name=name)


def gradient_accumulation_count(
    value: TensorLike, name: str | None = None
) -> Operation | None:
    """Does nothing: the count is that of the enclosing optimizer or pipeline."""
    del value
    return None if tf.executing_eagerly() else tf.no_op(name=name)


def device_sync(name: str | None = None) -> Operation | None:
    """Does nothing: a program's results determine the order of its operations."""
    return None if tf.executing_eagerly() else tf.no_op(name=name)


def ipu_barrier(
    inputs: TensorLike,
    insert_barrier_for_gradients: bool = False,
    name: str | None = None,
) -> Nest:
    """Returns the same tensors, each after all are computed: see `control_flow_ops`.

    Raises:
        TypeError: `inputs` is not a list or tuple.
    """
    if not isinstance(inputs, (list, tuple)):  # a tensor would be taken for its rows
        raise TypeError(
            f"`inputs` must be a list of tensors, got {type(inputs).__name__}: give `[x]` "
            "for a single x."
        )
    return control_flow_ops.barrier(list(inputs), insert_barrier_for_gradients, name)


def ipu_assume_equal_across_replicas(
    inputs: TensorLike, name: str | None = None
) -> Tensor:
    """Returns the same tensor: see `cross_replica_ops.assume_equal_across_replicas`."""
    del name
    return collectives.assume_equal_across_replicas(inputs)
