"""Queries of the ops of a version 1 graph and their shards; and automatic sharding.

    input --> op  op  op | op  op  op --> loss        two shards: equal numbers of ops,
              shard 0    | shard 1                    in the order of the graph

Shards do not change results here, only the number of IPUs of a copy of the program.

Source: Graphcore's functions of these names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from ipufeed.checks import as_count, check_flags, check_function
from ipufeed.device.program.sharding import (
    SHARD_ATTR,
    get_sharding,
    propagate_sharding,
    shard_attributes,
)
from ipufeed.no_effect import no_effect
from ipufeed.tf_types import Operation, Tensor

__all__ = [
    "automatic_sharding",
    "dependencies",
    "enable_sharded_gradient_tape",
    "get_shard_from_colocation",
    "get_sharding",
    "has_attr",
    "ipu_autoshard",
    "propagate_sharding",
]

AUTOSHARD_ATTR = "_ipufeed_autoshard"


def has_attr(op: Operation, name: str) -> bool:
    """Returns whether an op has an attribute of this name."""
    return name in _op_of("op", op).node_def.attr


def dependencies(roots: Iterable[Tensor | Operation]) -> set[Operation]:
    """Returns the ops of `roots` and all ops that these depend on.

    Args:
        roots: A list of tensors and ops.

    Raises:
        TypeError: It is not a list of tensors and ops of a graph.
    """
    if not isinstance(roots, Iterable) or tf.is_tensor(roots):
        raise TypeError(
            f"`roots` must be a list of tensors and ops, got {type(roots).__name__}."
        )
    left = [_op_of("roots", each) for each in roots]
    found = set(left)
    while left:
        op = left.pop()
        above = {*(tensor.op for tensor in op.inputs), *op.control_inputs} - found
        found |= above
        left += above
    return found


def get_shard_from_colocation(op: Operation) -> int | None:
    """Returns the shard of an op that this one is colocated with, else of an input.

    Returns:
        The index of the IPU; None if none of these ops has one.

    Raises:
        TypeError: It is not an op of a graph.
    """
    op = _op_of("op", op)
    names = [
        group.decode().removeprefix("loc:@") for group in op.colocation_groups() or ()
    ]
    colocated = [
        op.graph.get_operation_by_name(name) for name in names if _is_op(op, name)
    ]
    for other in (*colocated, *(tensor.op for tensor in op.inputs)):
        shard = None if other is op else get_sharding(other)
        if shard is not None:
            return shard[0]
    return None


def _op_of(name: str, value: object) -> Operation:
    """Returns the op of an argument, which is a tensor or an op of a graph."""
    op = getattr(value, "op", value)  # a tensor of eager mode has none
    if not isinstance(op, tf.Operation):
        raise TypeError(
            f"`{name}` must be tensors or ops of a graph, got {type(value).__name__}."
        )
    return op


def _is_op(op: Operation, name: str) -> bool:
    try:
        op.graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True


def enable_sharded_gradient_tape() -> None:
    """Does nothing: gradients are always on the IPUs of their ops."""


@contextlib.contextmanager
def ipu_autoshard() -> Iterator[None]:
    """Marks ops for `automatic_sharding`, which then distributes only marked ones."""
    if tf.executing_eagerly():
        yield
        return
    mark = {AUTOSHARD_ATTR: attr_value_pb2.AttrValue(b=True)}
    with tf.compat.v1.get_default_graph()._attr_scope(mark):
        yield


def automatic_sharding(
    num_shards: int,
    input_ts: Tensor,
    loss_ts: Tensor,
    edge_filter: Callable[[tuple[str, str]], bool] | None = None,
    frozen_inference: bool = False,
) -> None:
    """Gives shards to the ops between two tensors, and to what these read.

    Ops that have a shard keep it. Gradients are on the shards of their ops.

    Args:
        num_shards: The number of shards.
        input_ts: The tensor that is nearest to the data.
        loss_ts: The tensor that is nearest to the loss.
        edge_filter: No effect, with a warning.
        frozen_inference: Whether the graph is a frozen one; either value does the same.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The number is less than 1, or there are fewer ops than shards.
    """
    check_flags(frozen_inference=frozen_inference)
    shards = as_count("num_shards", num_shards)
    for name, value in (("input_ts", input_ts), ("loss_ts", loss_ts)):
        if not tf.is_tensor(value):
            raise TypeError(f"`{name}` must be a tensor, got {type(value).__name__}.")
        _op_of(name, value)
    if edge_filter is not None:
        check_function("edge_filter", edge_filter)
        no_effect(
            "automatic_sharding(edge_filter=)", "all IPUs of a copy compute together"
        )
    found = _between(input_ts, loss_ts)
    marked = [op for op in found if has_attr(op, AUTOSHARD_ATTR)]
    chosen = marked or found
    if len(chosen) < shards:
        raise ValueError(
            f"There are {len(chosen)} ops on an IPU between `input_ts` and `loss_ts`, "
            f"which are less than {shards} shards."
        )
    for number, op in enumerate(chosen):
        shard = number * shards // len(chosen)
        _set_shard(op, shard)
        for tensor in op.inputs:
            if tensor is not input_ts and tensor.op not in found:
                _set_shard(tensor.op, shard)


def _between(first: Tensor, last: Tensor) -> list[Operation]:
    """Returns the ops of IPUs that depend on one tensor and that the other depends on."""
    needed = dependencies([last])
    reached = {first.op}
    for op in last.graph.get_operations():  # in topological order, but for loops
        above = {*(tensor.op for tensor in op.inputs), *op.control_inputs}
        if above & reached:
            reached.add(op)
    reached.discard(first.op)
    ops, both = last.graph.get_operations(), needed & reached
    return [op for op in ops if op in both and not _on_host(op)]


def _set_shard(op: Operation, shard: int) -> None:
    if _on_host(op) or has_attr(op, SHARD_ATTR):
        return
    for name, value in shard_attributes([shard]).items():
        op._set_attr(name, value)


def _on_host(op: Operation) -> bool:
    kind: str | None = tf.DeviceSpec.from_string(op.device).device_type
    return kind == "CPU"
