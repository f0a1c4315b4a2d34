"""A step alone: all above it left out, and a cache of its inputs below.

What it gives then is its own ceiling. Only public steps of tf.data are used (take, cache,
repeat), and the step itself with its function, parallelism and options as they are.
"""

from __future__ import annotations

import copy
import time
from typing import Any

from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, find_node, node_name
from ipufeed.benchmark.measuring.run import Progress, run_measurement

# Elements of each input to keep. More would be closer to all that there are, and take
# longer to fill than there is time.
KEPT_ELEMENTS = 16
# The part of the run that is for the cache to fill and AUTOTUNE to settle.
SETTLING_SHARE = 0.3
FEWEST_ELEMENTS = 3


class _TooLateError(Exception):
    """The first element did not come in time."""


def measure_alone(graph: PipelineGraph, node: str, seconds: float) -> float | None:
    """Elements of the step per second when its inputs cost nothing.

    Args:
        graph: Rewritten, as training runs it.
        node: The step's.
        seconds: To measure for, after the first element; as long again to get there.

    Returns:
        None for a step that gives variants (a window), that cannot be cut off, or that
        is too slow for the time.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import tensorflow as tf

    step = next(step for step in graph.steps if step.node == node)
    spec = graph.spec_of(node)
    edited = copy.deepcopy(graph.graph)
    for each in dict.fromkeys(step.inputs):
        if graph.spec_of(each) is None:
            return None
        replace_input(edited, node, each, add_cache(edited, each, KEPT_ELEMENTS))
    if spec is None:
        return None
    try:
        dataset = graph.as_it_is(edited, node, spec)
        return rate_of(dataset, seconds)
    except tf.errors.OpError:
        return None


def rate_of(dataset: Any, seconds: float) -> float | None:
    """Elements per second of the last part of a short run; None for too few."""
    asked_ns = time.monotonic_ns()

    def follow(progress: Progress) -> None:
        if progress.first_ns == 0 and time.monotonic_ns() - asked_ns > seconds * 1e9:
            raise _TooLateError

    raw, interruption = run_measurement(
        dataset, {"seconds_ns": max(1, round(seconds * 1e9)), "copy": False}, follow
    )
    if interruption is not None and not isinstance(interruption, _TooLateError):
        raise interruption
    if raw is None or raw.failure is not None:
        return None
    stamps = raw.stamps
    kept = (
        stamps[stamps >= stamps[0] + SETTLING_SHARE * seconds * 1e9]
        if len(stamps)
        else stamps
    )
    if len(kept) < FEWEST_ELEMENTS or kept[-1] <= kept[0]:
        return None
    return float((len(kept) - 1) / ((kept[-1] - kept[0]) / 1e9))


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
