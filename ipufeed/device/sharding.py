"""Which IPU of a device an op of a version 1 graph is on: what scopes.ipu_shard noted."""

from __future__ import annotations

from typing import Any

SHARD_ATTR = "_ipufeed_shard"


def get_sharding(operation: Any) -> list[int] | None:
    """The index of an op's IPU, or one for each output; None if nothing says.

    A gradient is where the op is that it belongs to.

    Raises:
        TypeError: `operation` is none.
    """
    import tensorflow as tf

    if not isinstance(operation, tf.Operation):
        raise TypeError(
            f"`operation` must be a tf.Operation, got {type(operation).__name__}."
        )
    # A gradient of a gradient leads to another one before it leads to the op.
    while operation is not None:
        if SHARD_ATTR in operation.node_def.attr:
            return indices(operation)
        operation = operation._original_op
    return None


def indices(operation: Any) -> list[int]:
    """The indices in an op's own note."""
    text: str = operation.get_attr(SHARD_ATTR).decode()
    return [int(index) for index in text.split(",")]


def propagate_sharding(graph: Any = None) -> None:
    """Notes a shard at each op that has none and whose shard follows from others.

    That is a gradient's op, or else where the op's first input with a shard is, or else
    where the first op that takes its results is.

    Args:
        graph: The graph. Default: the default one.
    """
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2

    graph = graph or tf.compat.v1.get_default_graph()
    operations = graph.get_operations()
    found = {op.name: get_sharding(op) for op in operations}

    def settle(op: Any, neighbours: list[Any]) -> None:
        known = (found[each.name] for each in neighbours)
        shard = next((each[:1] for each in known if each), None)
        found[op.name] = found[op.name] or shard

    for op in operations:
        settle(op, [tensor.op for tensor in op.inputs])
    for op in reversed(operations):
        settle(op, [user for tensor in op.outputs for user in tensor.consumers()])
    for op in operations:
        shard = found[op.name]
        if shard and SHARD_ATTR not in op.node_def.attr:
            text = ",".join(map(str, shard)).encode()
            op._set_attr(SHARD_ATTR, attr_value_pb2.AttrValue(s=text))
