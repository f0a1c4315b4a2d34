"""The IPU of an op of a version 1 graph: the attributes that scopes.ipu_shard sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2

from ipufeed.tf_types import Graph, Operation

# The device reads them: ipufeed/cc/xla/compile/shards.cc.
SHARD_ATTR = "_ipufeed_shard"
SHARDS_ATTR = "_ipufeed_shards"
# TensorFlow's attribute: a serialised xla.OpSharding, by which XLA colours its graphs.
XLA_SHARDING_ATTR = "_XlaSharding"
PIPELINE = "IpufeedPipeline"  # an op with the number of its IPUs as an attribute


def get_sharding(operation: Operation) -> list[int] | None:
    """Returns the index of an op's IPU, or one for each output; None if it has none.

    A gradient is on the IPU of its op.

    Raises:
        TypeError: `operation` is not a tf.Operation.
    """
    if not isinstance(operation, tf.Operation):
        raise TypeError(
            f"`operation` must be a tf.Operation, got {type(operation).__name__}."
        )
    # The original op of a gradient's gradient is a gradient.
    while operation is not None:
        if SHARD_ATTR in operation.node_def.attr:
            return indices(operation)
        operation = operation._original_op
    return None


def indices(operation: Operation) -> list[int]:
    """Returns the indices in an op's attribute."""
    text: str = operation.get_attr(SHARD_ATTR).decode()
    return [int(index) for index in text.split(",")]


def shard_attributes(indices: Iterable[int]) -> dict[str, Any]:
    """Returns the attributes of an op on these IPUs: one, or one for each output.

    Only an op on one IPU has XLA_SHARDING_ATTR: XLA refuses one with several.
    """
    found = list(indices)
    text = ",".join(map(str, found)).encode()
    made = {SHARD_ATTR: attr_value_pb2.AttrValue(s=text)}
    if len(found) == 1:
        kind = xla_data_pb2.OpSharding
        sharding = kind(type=kind.MAXIMAL, tile_assignment_devices=found)
        made[XLA_SHARDING_ATTR] = attr_value_pb2.AttrValue(
            s=sharding.SerializeToString()
        )
    return made


def number_of_shards(operations: Iterable[Operation]) -> int:
    """Returns the IPUs of these ops: the highest index plus 1, up to a power of two.

    Copies of a program get IPUs in groups of a power of two. The ops of called functions,
    such as the bodies of loops, are included.
    """
    most = 1
    for op in with_called(operations):
        if SHARD_ATTR in op.node_def.attr:
            most = max(most, *(index + 1 for index in indices(op)))
        if op.type == PIPELINE:
            most = max(most, op.get_attr("devices"))
    return 1 << (most - 1).bit_length()


def with_called(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yields ops, and those of the functions that they call, such as loop bodies."""
    graphs: set[int] = set()
    left = list(operations)
    while left:
        op = left.pop()
        yield op
        for graph in called_graphs(op):
            if id(graph) not in graphs:
                graphs.add(id(graph))
                left += graph.get_operations()


def called_graphs(operation: Operation) -> list[Graph]:
    """Returns the graphs of the functions that an op calls, such as a loop's body."""
    attributes = operation.node_def.attr.values()
    names = [each.func.name for each in attributes if each.HasField("func")]
    names += [func.name for each in attributes for func in each.list.func]
    functions = [operation.graph._get_function(name) for name in names]
    return [each.graph for each in functions if getattr(each, "graph", None)]


def mark_shards(operations: Iterable[Operation]) -> None:
    """Sets the program's number of IPUs as an attribute of each of its ops.

    TensorFlow rewrites a session's graph before it compiles the program, and a replaced op
    loses its attributes; some op always keeps them.
    """
    operations = list(operations)
    shards = number_of_shards(operations)
    if shards == 1:
        return
    for op in operations:
        op._set_attr(SHARDS_ATTR, attr_value_pb2.AttrValue(i=shards))


def propagate_sharding(graph: Graph | None = None) -> None:
    """Sets the shard of each op without one that can be derived from other ops.

    It is that of a gradient's op, or else of the op's first input with a shard, or else of
    the first consumer of its results with one.

    Args:
        graph: The graph. Default: the default one.

    Raises:
        TypeError: It is not a tf.Graph.
    """
    if graph is None:
        graph = tf.compat.v1.get_default_graph()
    if not isinstance(graph, tf.Graph):
        raise TypeError(
            f"`graph` must be a tf.Graph or None, got {type(graph).__name__} {graph!r}."
        )
    operations = graph.get_operations()
    found = {op.name: get_sharding(op) for op in operations}

    def settle(op: Operation, neighbours: list[Operation]) -> None:
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
            for name, value in shard_attributes(shard).items():
                op._set_attr(name, value)
