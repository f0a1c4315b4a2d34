"""Edits of a pipeline's graph, each what a user would write in Python.

All work on a copy of the graph as it was written, before tf.data's rewrites, so that
these apply to the edited pipeline as they would in training. They raise ValueError for a
step that is not what they are for.
"""

from __future__ import annotations

from typing import Any

from ipufeed.benchmark.graph.pipeline_graph import OPTIONS_OP, find_node, node_name

AUTOTUNE = -1


def parallelize_map(graph: Any, node: str) -> None:
    """`.map(f)` -> `.map(f, num_parallel_calls=tf.data.AUTOTUNE)`."""
    step = find_node(graph, node)
    check_op(step, "MapDataset")
    calls = add_constant(graph, f"{node}_ipufeed_calls", AUTOTUNE)
    step.op = "ParallelMapDatasetV2"
    step.input.append(calls)
    step.attr["deterministic"].s = b"default"


def parallelize_interleave(graph: Any, node: str) -> None:
    """`.interleave(f, ...)` -> the same with `num_parallel_calls=tf.data.AUTOTUNE`."""
    step = find_node(graph, node)
    check_op(step, "InterleaveDataset")
    _parallel_interleave(graph, step)


def interleave_files(graph: Any, node: str, files: int) -> None:
    """Files one after another -> `.interleave(read, cycle_length=files, ...)` of them."""
    step = find_node(graph, node)
    check_op(step, "FlatMapDataset")
    step.input.append(add_constant(graph, f"{node}_ipufeed_cycle", files))
    step.input.append(add_constant(graph, f"{node}_ipufeed_block", 1))
    _parallel_interleave(graph, step)


def _parallel_interleave(graph: Any, step: Any) -> None:
    for name in ("buffer", "prefetched", "calls"):
        step.input.append(add_constant(graph, f"{step.name}_ipufeed_{name}", AUTOTUNE))
    step.op = "ParallelInterleaveDatasetV4"
    step.attr["deterministic"].s = b"default"


def map_calls(graph: Any, node: str, calls: int) -> None:
    """`num_parallel_calls=calls` for a parallel map."""
    step = find_node(graph, node)
    check_op(step, "ParallelMapDatasetV2")
    step.input[-1] = add_constant(graph, f"{node}_ipufeed_calls", calls)


def interleave_calls(graph: Any, node: str, calls: int) -> None:
    """`num_parallel_calls=calls` for a parallel interleave, of as many datasets."""
    step = find_node(graph, node)
    check_op(step, "ParallelInterleaveDatasetV4")
    cycle = constant_value(graph, step.input[-5])
    if cycle is None or cycle < calls:
        step.input[-5] = add_constant(graph, f"{node}_ipufeed_cycle", calls)
    step.input[-1] = add_constant(graph, f"{node}_ipufeed_calls", calls)


def constant_value(graph: Any, text: str) -> int | None:
    """The number that an input stands for, or None."""
    import tensorflow as tf

    source = find_node(graph, node_name(text))
    if source.op != "Const":
        return None
    return int(tf.make_ndarray(source.attr["value"].tensor))


def prefetch_behind(graph: Any, node: str) -> None:
    """Puts `.prefetch(tf.data.AUTOTUNE)` behind a step."""
    _insert_behind(graph, node, "PrefetchDataset", AUTOTUNE)


def cache_behind(graph: Any, node: str) -> None:
    """Puts `.cache()` behind a step."""
    _insert_behind(graph, node, "CacheDataset", "")


def let_order_go(graph: Any, node: str) -> None:
    """`deterministic=False` for a parallel step."""
    step = find_node(graph, node)
    if "deterministic" not in step.attr:
        raise ValueError(f"{step.op} has no `deterministic`.")
    step.attr["deterministic"].s = b"false"


def _insert_behind(graph: Any, node: str, op: str, value: int | str) -> None:
    step = find_node(graph, node)
    name = f"{node}_ipufeed_{op}"
    for each in graph.node:
        for number, text in enumerate(each.input):
            if node_name(text) == node:
                each.input[number] = name
    constant = add_constant(graph, f"{name}_value", value)
    added = graph.node.add(name=name, op=op)
    added.input.extend([node, constant])
    key = "output_types" if "output_types" in step.attr else "Toutput_types"
    for own, theirs in (("output_types", key), ("output_shapes", "output_shapes")):
        if theirs not in step.attr:
            raise ValueError(
                f"{step.op} has no attribute with the types of its elements."
            )
        added.attr[own].CopyFrom(step.attr[theirs])


def last_node(graph: Any, root: str) -> str:
    """The node to run for the whole pipeline: `root`, or what now stands behind it."""
    inserted = [
        each.name
        for each in graph.node
        if "_ipufeed_" in each.name
        and each.op.endswith("Dataset")
        and node_name(each.input[0]) == below_options(graph, root)
    ]
    # Options stay on top: they have the inserted step for their input already.
    if inserted and find_node(graph, root).op != OPTIONS_OP:
        return str(inserted[0])
    return root


def below_options(graph: Any, node: str) -> str:
    """The first step at or below `node` that is more than options."""
    while find_node(graph, node).op == OPTIONS_OP:
        node = node_name(find_node(graph, node).input[0])
    return node


def check_op(step: Any, op: str) -> None:
    """Refuses a node of another op."""
    if step.op != op:
        raise ValueError(f"the step must be a {op}, got {step.op}.")


def add_cache(graph: Any, node: str, elements: int) -> str:
    """Adds `.take(elements).cache().repeat()` behind a node; returns its last node."""
    types = find_node(graph, node).attr
    key = "output_types" if "output_types" in types else "Toutput_types"
    tail = node
    steps: list[tuple[str, int | str]] = [
        ("TakeDataset", elements),
        ("CacheDataset", ""),
        ("RepeatDataset", -1),
    ]
    for number, (op, constant) in enumerate(steps):
        value = add_constant(graph, f"{node}_ipufeed_{number}_value", constant)
        added = graph.node.add(name=f"{node}_ipufeed_{number}", op=op)
        added.input.extend([tail, value])
        added.attr["output_types"].CopyFrom(types[key])
        added.attr["output_shapes"].CopyFrom(types["output_shapes"])
        tail = added.name
    return tail


def add_constant(graph: Any, name: str, value: int | str | bool) -> str:
    """Adds a scalar (int64, string or bool); returns its name."""
    import tensorflow as tf

    dtype = {int: tf.int64, str: tf.string, bool: tf.bool}[type(value)]
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, []))
    return name


def replace_input(graph: Any, node: str, old: str, new: str) -> None:
    """Makes `node` read `new` wherever it read `old`, options in between left out."""
    nodes = {each.name: each for each in graph.node}
    for number, text in enumerate(nodes[node].input):
        source = node_name(text)
        while source in nodes and nodes[source].op == "OptionsDataset":
            source = node_name(nodes[source].input[0])
        if source == old:
            nodes[node].input[number] = new
