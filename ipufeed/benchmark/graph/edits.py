"""Edits of a pipeline's graph; each has the effect of a change to the user's Python code.

Each works in place on a copy of the graph as it was written, before tf.data's rewrites, so
that the edited pipeline gets these as in training. Raises ValueError where the node is of
another op than the edit is for.
"""

from __future__ import annotations

import tensorflow as tf

from ipufeed.benchmark.graph.pipeline_graph import (
    OPTIONS_OP,
    find_node,
    node_name,
    skip_options,
    types_key,
)
from ipufeed.tf_types import GraphDef, NodeDef

AUTOTUNE = -1


def parallelize_map(graph: GraphDef, node: str) -> None:
    """Makes `.map(f)` a `.map(f, num_parallel_calls=tf.data.AUTOTUNE)`."""
    step = _node_of(graph, node, "MapDataset")
    step.op = "ParallelMapDatasetV2"
    step.input.append(_add_constant(graph, f"{node}_ipufeed_calls", AUTOTUNE))
    step.attr["deterministic"].s = b"default"


def parallelize_interleave(graph: GraphDef, node: str) -> None:
    """Gives `.interleave(f, ...)` a `num_parallel_calls=tf.data.AUTOTUNE`."""
    _parallel_interleave(graph, _node_of(graph, node, "InterleaveDataset"))


def interleave_files(graph: GraphDef, node: str, files: int) -> None:
    """Makes `.flat_map(read)` an `.interleave(read, cycle_length=files, ...)`."""
    step = _node_of(graph, node, "FlatMapDataset")
    step.input.append(_add_constant(graph, f"{node}_ipufeed_cycle", files))
    step.input.append(_add_constant(graph, f"{node}_ipufeed_block", 1))
    _parallel_interleave(graph, step)


def _parallel_interleave(graph: GraphDef, step: NodeDef) -> None:
    for name in ("buffer", "prefetched", "calls"):
        step.input.append(_add_constant(graph, f"{step.name}_ipufeed_{name}", AUTOTUNE))
    step.op = "ParallelInterleaveDatasetV4"
    step.attr["deterministic"].s = b"default"


def map_calls(graph: GraphDef, node: str, calls: int) -> None:
    """Sets `num_parallel_calls` of a parallel map."""
    step = _node_of(graph, node, "ParallelMapDatasetV2")
    step.input[-1] = _add_constant(graph, f"{node}_ipufeed_calls", calls)


def interleave_calls(graph: GraphDef, node: str, calls: int) -> None:
    """Sets `num_parallel_calls` of a parallel interleave, and `cycle_length` to as much."""
    step = _node_of(graph, node, "ParallelInterleaveDatasetV4")
    cycle = constant_value(graph, step.input[-5])
    if cycle is None or cycle < calls:
        step.input[-5] = _add_constant(graph, f"{node}_ipufeed_cycle", calls)
    step.input[-1] = _add_constant(graph, f"{node}_ipufeed_calls", calls)


def constant_value(graph: GraphDef, text: str) -> int | None:
    """Returns the value of a node's input, or None if it is not a constant."""
    source = find_node(graph, node_name(text))
    if source.op != "Const":
        return None
    return int(tf.make_ndarray(source.attr["value"].tensor))


def prefetch_behind(graph: GraphDef, node: str) -> None:
    """Inserts `.prefetch(tf.data.AUTOTUNE)` after a node."""
    _insert_behind(graph, node, "PrefetchDataset", AUTOTUNE)


def cache_behind(graph: GraphDef, node: str) -> None:
    """Inserts `.cache()` after a node."""
    _insert_behind(graph, node, "CacheDataset", "")


def let_order_go(graph: GraphDef, node: str) -> None:
    """Sets `deterministic=False` of a parallel stage."""
    step = find_node(graph, node)
    if "deterministic" not in step.attr:
        raise ValueError(f"{step.op} has no `deterministic`.")
    step.attr["deterministic"].s = b"false"


def _insert_behind(graph: GraphDef, node: str, op: str, value: int | str) -> None:
    name = f"{node}_ipufeed_{op}"
    for each in graph.node:
        for number, text in enumerate(each.input):
            if node_name(text) == node:
                each.input[number] = name
    _add_dataset(graph, name, op, node, value)


def last_node(graph: GraphDef, root: str) -> str:
    """Returns the last node of the edited pipeline: `root`, or one inserted after it."""
    nodes = {each.name: each for each in graph.node}
    inserted = [
        each.name
        for each in graph.node
        if "_ipufeed_" in each.name
        and each.op.endswith("Dataset")
        and node_name(each.input[0]) == skip_options(nodes, root)
    ]
    # An options node stays the root: the inserted stage is already its input.
    if inserted and nodes[root].op != OPTIONS_OP:
        return inserted[0]
    return root


def add_cache(graph: GraphDef, node: str, elements: int) -> str:
    """Adds `.take(elements).cache().repeat()` after a node; returns the last node added."""
    steps: tuple[tuple[str, int | str], ...] = (
        ("TakeDataset", elements),
        ("CacheDataset", ""),
        ("RepeatDataset", -1),
    )
    tail = node
    for number, (op, value) in enumerate(steps):
        tail = _add_dataset(graph, f"{node}_ipufeed_{number}", op, tail, value)
    return tail


def replace_input(graph: GraphDef, node: str, old: str, new: str) -> None:
    """Replaces the input `old` of a node, with the options nodes between, by `new`."""
    nodes = {each.name: each for each in graph.node}
    for number, text in enumerate(nodes[node].input):
        if skip_options(nodes, node_name(text)) == old:
            nodes[node].input[number] = new


def _node_of(graph: GraphDef, name: str, op: str) -> NodeDef:
    node = find_node(graph, name)
    if node.op != op:
        raise ValueError(f"the node must be a {op}, got {node.op}.")
    return node


def _add_dataset(
    graph: GraphDef, name: str, op: str, source: str, value: int | str
) -> str:
    """Adds a dataset op with two inputs, whose elements have the types of its source's."""
    step = find_node(graph, source)
    key = types_key(step)
    if key is None:
        raise ValueError(f"{step.op} has no attribute with the types of its elements.")
    added = graph.node.add(name=name, op=op)
    added.input.extend([source, _add_constant(graph, f"{name}_value", value)])
    added.attr["output_types"].CopyFrom(step.attr[key])
    added.attr["output_shapes"].CopyFrom(step.attr["output_shapes"])
    return name


def _add_constant(graph: GraphDef, name: str, value: int | str) -> str:
    dtype = {int: tf.int64, str: tf.string}[type(value)]
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, []))
    return name
