"""Finds the ops of a graph that have a place in the order of its queue ops: chain.py.

These are the ops with a token as input, and those that call functions with such ops.
"""

from __future__ import annotations

from typing import Any

from ipufeed.tf_types import Graph, Operation

# Ops that call functions -> the attributes with the functions' names. The stateless
# variants cannot contain queue ops.
CALLS = {
    "Case": ("branches",),
    "If": ("then_branch", "else_branch"),
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "While": ("cond", "body"),
}

# The op of assertions: tf_patches/asserts.py.
ASSERT = "IpufeedAssert"


def holds_queue_ops(op: Operation) -> bool:
    """Returns whether an op is a queue op, or calls a function that contains one."""
    return not _chained_types(op) <= {ASSERT}


def _chained_types(op: Operation) -> frozenset[str]:
    """Returns the types of ops with a token: that of an op, and those in its functions."""
    if op.type.startswith("Ipufeed"):
        has_token = any(argument.name == "token" for argument in op.op_def.input_arg)
        return frozenset([op.type] if has_token else [])
    return frozenset().union(
        *(
            _types_in_function(op.graph, name)
            for attribute in CALLS.get(op.type, ())
            for name in _function_names(op.get_attr(attribute))
        )
    )


def _function_names(attribute: Any) -> list[str]:
    found = attribute if isinstance(attribute, list) else [attribute]
    return [str(each.name) for each in found]


def _types_in_function(graph: Graph, name: str) -> frozenset[str]:
    function = graph._get_function(name)
    body = getattr(function, "graph", None)
    if body is None:
        return frozenset()
    # Cached: a function that has a name does not change.
    known: frozenset[str] | None = getattr(body, "_ipufeed_chained_types", None)
    if known is None:
        known = frozenset().union(*map(_chained_types, body.get_operations()))
        body._ipufeed_chained_types = known
    return known


def is_ordered(op: Operation) -> bool:
    """Returns whether an op has a place in the order of its graph's queue ops."""
    types = _chained_types(op)
    return not types <= {ASSERT} or (bool(types) and _graph_holds_queue_ops(op.graph))


def _graph_holds_queue_ops(graph: Graph) -> bool:
    found: tuple[int, bool] | None = getattr(graph, "_ipufeed_has_queue_ops", None)
    if found is None or found[0] != graph.version:  # it may have grown
        has = any(map(holds_queue_ops, graph.get_operations()))
        found = graph._ipufeed_has_queue_ops = (graph.version, has)
    return found[1]


def unneeded_enqueues(graph: Graph, first_op: int, needed: list[Operation]) -> bool:
    """Returns whether the body of a version 1 loop has enqueues that do not run.

    TensorFlow does not run what no result depends on. A queue op before one that is needed
    runs: see chain.py.

    Args:
        graph: The graph.
        first_op: The number of its operations before the body.
        needed: The operations of the body's results, and those that it returns.
    """
    context = graph._get_control_flow_context()
    if graph.building_function or context is None or not context.IsWhileContext():
        return False  # a function runs them
    new = graph.get_operations()[first_op:]
    unseen, todo = set(new), list(needed)
    while todo:
        op = todo.pop()
        if op in unseen:
            unseen.discard(op)
            todo += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    for op in reversed(new):
        if not is_ordered(op):
            continue
        if op not in unseen:
            return False
        own = op._get_control_flow_context() is context  # not a loop's in the body
        if own and "IpufeedEnqueue" in _chained_types(op):
            return True
    return False
