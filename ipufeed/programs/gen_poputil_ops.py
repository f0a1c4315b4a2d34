"""gen_poputil_ops: raw operations of gradient accumulation, barriers and hints.

Source: names and arguments are those of Graphcore's module
tensorflow.compiler.plugin.poplar.ops.gen_poputil_ops.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.device.program.training_loop import training_loop
from ipufeed.ops import control_flow_ops
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.accumulator import Accumulator


def ipu_stateful_gradient_accumulate(
    input: Any,  # noqa: A002 - the original's
    num_mini_batches: int,
    verify_usage: bool = True,
    name: str | None = None,
) -> Any:
    """Zeros; at each `num_mini_batches`-th iteration of loops.repeat the sum since then.

    Args:
        input: What is added up.
        num_mini_batches: Must divide the loop's count.
        verify_usage: Not used: what becomes of the value is not looked at.
        name: Of the operation.

    Raises:
        tf.errors.FailedPreconditionError: When it runs: there is no such loop, or its count
            is not a multiple.
    """
    del verify_usage
    value = tf.convert_to_tensor(input)
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
        return tf.where(is_last, total, tf.zeros_like(total), name=name)


def ipu_stateful_gradient_accumulate_with_momentum(
    accum: Any,
    grad: Any,
    momentum: Any,
    num_mini_batches: int,
    name: str | None = None,
) -> Any:
    """Adds to a variable, which a group of iterations first multiplies by `momentum`.

    Args:
        accum: The variable, or its handle.
        grad: What is added in each iteration.
        momentum: A scalar.
        num_mini_batches: Iterations of a group; it must divide the loop's count.
        name: Of the operation.

    Returns:
        Zeros; in the last iteration of a group the variable's value.

    Raises:
        tf.errors.FailedPreconditionError: See ipu_stateful_gradient_accumulate.
    """
    gradient = tf.convert_to_tensor(grad)
    handle = getattr(accum, "handle", accum)
    dtype = gradient.dtype
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


def gradient_accumulator_create(
    variable: Any, output_type: Any, name: str | None = None
) -> Any:
    """Zeros of a variable's shape (or its handle's) and a dtype."""
    shape = getattr(variable, "shape", None)
    if getattr(variable, "dtype", None) == tf.resource:
        data = variable._handle_data
        shape = tf.TensorShape(data.shape_and_type[0].shape)
    return tf.zeros(shape, output_type, name=name)


def gradient_accumulator_create_from_shape(
    shape: Any, output_type: Any, name: str | None = None
) -> Any:
    """Zeros of a shape and a dtype."""
    return tf.zeros(shape, output_type, name=name)


def gradient_accumulator_add_with_scale(
    accumulator: Any, gradients: Any, accumulator_scale: Any, name: str | None = None
) -> Any:
    """Accumulator * accumulator_scale + gradients, in the accumulator's dtype."""
    accumulator = tf.convert_to_tensor(accumulator)
    dtype = accumulator.dtype
    scaled = accumulator * tf.cast(accumulator_scale, dtype)
    return tf.add(scaled, tf.cast(gradients, dtype), name=name)


def gradient_accumulator_sink(
    input: Any,  # noqa: A002 - the original's
    name: str | None = None,
) -> Any:
    """The same tensor."""
    return tf.identity(input, name=name)


def gradient_accumulation_count(value: Any, name: str | None = None) -> Any:
    """Does nothing: a count is that of the optimizer or the pipeline around it."""
    del value
    return None if tf.executing_eagerly() else tf.no_op(name=name)


def device_sync(name: str | None = None) -> Any:
    """Does nothing: a program's operations are in the order of its results."""
    return None if tf.executing_eagerly() else tf.no_op(name=name)


def ipu_barrier(
    inputs: Any, insert_barrier_for_gradients: bool = False, name: str | None = None
) -> Any:
    """The same tensors, of which none is there before all are: `control_flow_ops`."""
    return control_flow_ops.barrier(list(inputs), insert_barrier_for_gradients, name)


def ipu_assume_equal_across_replicas(inputs: Any, name: str | None = None) -> Any:
    """The same tensor: a hint, as `cross_replica_ops.assume_equal_across_replicas`."""
    del name
    return collectives.assume_equal_across_replicas(inputs)
