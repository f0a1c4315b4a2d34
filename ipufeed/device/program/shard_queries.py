"""What programs ask of the ops of a version 1 graph and their shards.

Source: Graphcore's functions of these names.
"""

from __future__ import annotations

from typing import Any

from ipufeed.device.program.sharding import get_sharding, propagate_sharding

__all__ = [
    "dependencies",
    "enable_sharded_gradient_tape",
    "get_shard_from_colocation",
    "get_sharding",
    "has_attr",
    "propagate_sharding",
]


def has_attr(op: Any, name: str) -> bool:
    """Whether an op has an attribute of this name."""
    return name in op.node_def.attr


def dependencies(roots: Any) -> set[Any]:
    """All ops that tensors or ops depend on, by values or by order, with their own.

    Args:
        roots: A list of tensors and ops.
    """
    left = [getattr(each, "op", each) for each in roots]
    found = set(left)
    while left:
        op = left.pop()
        above = {*(tensor.op for tensor in op.inputs), *op.control_inputs} - found
        found |= above
        left += above
    return found


def get_shard_from_colocation(op: Any) -> int | None:
    """The shard of an op that this one is colocated with, else of an op that it reads.

    Returns:
        The index of the IPU; None if none of these has one.
    """
    names = [
        group.decode().removeprefix("loc:@") for group in op.colocation_groups() or ()
    ]
    beside = [
        op.graph.get_operation_by_name(name) for name in names if _is_op(op, name)
    ]
    for other in (*beside, *(tensor.op for tensor in op.inputs)):
        shard = None if other is op else get_sharding(other)
        if shard is not None:
            return shard[0]
    return None


def _is_op(op: Any, name: str) -> bool:
    try:
        op.graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True


def enable_sharded_gradient_tape() -> None:
    """Nothing is left to be done: gradients are where the ops are that they belong to."""
