"""Queries of the ops of a version 1 graph and their shards.

Source: Graphcore's functions of these names.
"""

from __future__ import annotations

from collections.abc import Iterable

from ipufeed.device.program.sharding import get_sharding, propagate_sharding
from ipufeed.tf_types import Operation, Tensor

__all__ = [
    "dependencies",
    "enable_sharded_gradient_tape",
    "get_shard_from_colocation",
    "get_sharding",
    "has_attr",
    "propagate_sharding",
]


def has_attr(op: Operation, name: str) -> bool:
    """Returns whether an op has an attribute of this name."""
    return name in op.node_def.attr


def dependencies(roots: Iterable[Tensor | Operation]) -> set[Operation]:
    """Returns the ops of `roots` and all ops that these depend on.

    Args:
        roots: A list of tensors and ops.
    """
    left: list[Operation] = [getattr(each, "op", each) for each in roots]
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
    """
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


def _is_op(op: Operation, name: str) -> bool:
    try:
        op.graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True


def enable_sharded_gradient_tape() -> None:
    """Does nothing: gradients are always on the IPUs of their ops."""
