"""What a loop carries: first values, and what body and condition return."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ipufeed.checks import as_tensor
from ipufeed.device.program import executor
from ipufeed.tf_types import Nest, Operation, Tensor, TensorLike


def listed(inputs: Nest) -> list[Tensor]:
    """Returns the carried values as a list: [] for None, [value] for one value."""
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    values = [_carried(f"inputs[{index}]", value) for index, value in enumerate(inputs)]
    for index, value in enumerate(values):
        if value.dtype == tf.string and _is_compiled():
            raise TypeError(
                f"A compiled loop cannot carry strings, got one as input {index} of the "
                "loop. Carry a number, such as an index into a list of the strings, or use "
                'set_executor("tensorflow").'
            )
    return values


def split_results(results: Nest) -> tuple[list[Tensor], list[Operation]]:
    """Splits a body's results into tensors and the operations after them.

    Raises:
        ValueError: An operation comes before a tensor.
    """
    if results is None:
        return [], []
    if not isinstance(results, (list, tuple)):
        results = [results]
    tensors: list[Tensor] = []
    operations: list[Operation] = []
    for result in results:
        if isinstance(result, tf.Operation):
            operations.append(result)
        elif result is None:  # an enqueue in eager mode
            continue
        elif operations:
            raise ValueError(
                "IPU loop body must return zero or more Tensor values followed by zero or "
                "more Operations."
            )
        else:
            tensors.append(_carried("body(...)", result))
    return tensors, operations


def check_results(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Checks that a body returns values like the carried ones.

    Raises:
        TypeError: Their number or dtypes differ.
        ValueError: A shape differs, in a graph. (Eager loops carry any.)
    """
    dtypes, found = ([each.dtype for each in them] for them in (values, tensors))
    if found != dtypes:
        raise TypeError(
            "Mismatch between input types and output types for loop body: "
            f"{[dtype.name for dtype in dtypes]} vs {[dtype.name for dtype in found]}. "
            "Return a value of the same dtype for each one that the loop carries, in their "
            "order: use tf.cast."
        )
    if tf.executing_eagerly():
        return
    for index, (value, tensor) in enumerate(zip(values, tensors, strict=True)):
        if isinstance(value, tf.TensorArray) or value.shape.rank is None:
            continue
        # As TensorFlow's loops have it: as defined as before, or more.
        if tensor.shape.rank != value.shape.rank or any(
            before not in (None, after)
            for before, after in zip(value.shape, tensor.shape, strict=True)
        ):
            raise ValueError(
                "Mismatch between input shapes and output shapes for loop body: "
                f"inputs[{index}] has the shape {value.shape}, and the body returns "
                f"{tensor.shape} for it. Start with the shape that it returns, or reduce "
                "or reshape it in the body."
            )


def as_condition(result: TensorLike) -> Tensor:
    """Converts what a condition returns to a boolean scalar.

    Raises:
        TypeError: It is not a boolean.
        ValueError: It has several elements.
    """
    holds = None if result is None else as_tensor("condition(...)", result)
    if holds is None or holds.dtype != tf.bool:
        given = "None" if holds is None else f"a tensor of {holds.dtype.name}"
        raise TypeError(
            f"`condition` must return a boolean scalar, got {given}. Return a comparison, "
            "as in `x < 10`."
        )
    if (holds.shape.num_elements() or 1) != 1:
        raise ValueError(
            "`condition` must return a boolean scalar, got a tensor of shape "
            f"{holds.shape}. Reduce it, as with tf.reduce_all."
        )
    return tf.reshape(holds, [])


def _carried(name: str, value: TensorLike) -> Tensor:
    """Returns a carried value as a tensor, or an unchanged TensorArray."""
    if isinstance(value, tf.TensorArray):
        return value
    if isinstance(value, dict):
        raise TypeError(
            "A loop carries tensors, got a dict. Give its values, as in "
            "`list(values.values())`, and return them in the same order."
        )
    return as_tensor(name, value)


def passed_on(value: Tensor) -> Tensor:
    """Returns the identity of a tensor or TensorArray, to which dependencies are added."""
    return value.identity() if isinstance(value, tf.TensorArray) else tf.identity(value)


def _is_compiled() -> bool:
    """Returns whether the current graph becomes a part of a compiled program."""
    if tf.executing_eagerly() or executor.executor() != "xla":
        return False
    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))
