"""Which IPU of a device an op of a version 1 graph is on: what scopes.ipu_shard noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

# The device reads them: ipufeed/cc/xla/compile/shards.cc.
SHARD_ATTR = "_ipufeed_shard"
SHARDS_ATTR = "_ipufeed_shards"
PIPELINE = "IpufeedPipeline"  # an op with an attribute of how many it needs


def get_sharding(operation: Any) -> list[int] | None:
    """The index of an op's IPU, or one for each output; None if it has none.

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


def number_of_shards(operations: Iterable[Any]) -> int:
    """IPUs that these ops are spread over: the highest index plus 1, as a power of two.

    IPUs are given to copies of a program in groups of a power of two. What functions hold
    that they call, such as the bodies of loops, is counted with them.
    """
    most = 1
    for op in with_called(operations):
        if SHARD_ATTR in op.node_def.attr:
            most = max(most, *(index + 1 for index in indices(op)))
        if op.type == PIPELINE:
            most = max(most, op.get_attr("devices"))
    return 1 << (most - 1).bit_length()


def with_called(operations: Iterable[Any]) -> Iterator[Any]:
    """Ops, and those of all functions that they call, such as the bodies of loops."""
    graphs: set[int] = set()
    left = list(operations)
    while left:
        op = left.pop()
        yield op
        for graph in called_graphs(op):
            if id(graph) not in graphs:
                graphs.add(id(graph))
                left += graph.get_operations()


def called_graphs(operation: Any) -> list[Any]:
    """The graphs of the functions that an op calls."""
    attributes = operation.node_def.attr.values()
    names = [each.func.name for each in attributes if each.HasField("func")]
    names += [func.name for each in attributes for func in each.list.func]
    functions = [operation.graph._get_function(name) for name in names]
    return [each.graph for each in functions if getattr(each, "graph", None)]


def mark_program(operations: Iterable[Any]) -> None:
    """Notes at each op of a version 1 program how many IPUs it is spread over.

    TensorFlow rewrites a session's graph before it compiles the program, and what it puts
    in the place of an op has lost its shard; that of some op is always there.
    """
    from tensorflow.core.framework import attr_value_pb2

    operations = list(operations)
    shards = number_of_shards(operations)
    if shards == 1:
        return
    for op in operations:
        op._set_attr(SHARDS_ATTR, attr_value_pb2.AttrValue(i=shards))


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
