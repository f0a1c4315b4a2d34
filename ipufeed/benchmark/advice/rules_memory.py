"""Rules on memory: caches, shuffle buffers, and bytes that become floats too early."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.benchmark.advice.advice import Advice, Case
from ipufeed.benchmark.graph import edits
from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.graph.step_functions import is_random, ops_of, reads_files
from ipufeed.render import units
from ipufeed.tf_types import GraphDef

# Fractions of the available memory for a cache, and for a shuffle buffer.
CACHE_MEMORY_FRACTION = 0.5
SHUFFLE_MEMORY_FRACTION = 0.25
LONG_STARTUP_S = 10.0
# Copies matter if they take this fraction of the time.
COPIES_MATTER_FRACTION = 0.2


def missing_cache(case: Case) -> list[Advice]:
    """Advises a cache of files that are read in every pass and fit into memory."""
    explanation, memory = case.explanation, case.memory_available
    graph, steps = explanation.graph, explanation.graph.steps
    if any("Cache" in step.kind for step in steps) or memory is None:
        return []
    if any(len(step.inputs) > 1 for step in steps):
        return []
    if not any(reads_files(graph.graph, step) for step in steps):
        return []
    factors: dict[str, float] = {}
    best: tuple[float, str, int] | None = None
    for step in steps:
        if is_random(graph.graph, step) or step.kind.endswith("Repeat"):
            break
        factors[step.node] = 0.0
        size = _bytes_of(case, step.node)
        if size is None or size > CACHE_MEMORY_FRACTION * memory:
            continue
        if step.op in ("PrefetchDataset", "TensorSliceDataset"):
            continue
        gain = explanation.model.predict(factors)
        if case.gain(gain) and (best is None or gain > 1.05 * best[0]):
            best = (gain, step.node, size)
    if best is None:
        return []
    gain, node, size = best
    text = (
        f"put .cache() after `{explanation.names[node]}`: from the second pass on its "
        f"elements come from memory ({units.size(size)} of the {units.size(memory)} that "
        "are free)"
    )
    return [case.advise("missing_cache", node, text, gain, edits.cache_behind)]


def _bytes_of(case: Case, node: str) -> int | None:
    """Returns the bytes of all elements of a stage together, if they are known."""
    graph = case.explanation.graph
    spec = graph.spec_of(node)
    if spec is None or any(not each.shape.is_fully_defined() for each in spec):
        return None
    if any(each.dtype == tf.string for each in spec):
        return None
    try:
        count = int(graph.dataset(graph.graph, node, spec).cardinality())
    except tf.errors.OpError:
        return None
    if count < 0:
        return None
    return count * sum(
        int(each.dtype.size * each.shape.num_elements()) for each in spec
    )


def large_shuffle(case: Case) -> list[Advice]:
    """Advises a smaller shuffle buffer where it takes the memory or a long start."""
    found = []
    memory, startup = case.memory_available, case.startup_seconds or 0.0
    for stage in case.explanation.stages:
        if "Shuffle" not in stage.kind:
            continue
        held = stage.buffered_bytes or 0
        if memory is not None and held > SHUFFLE_MEMORY_FRACTION * memory:
            why = f"it holds {units.size(held)}"
        elif startup > LONG_STARTUP_S:
            why = (
                f"the first element took {startup:.0f} s, in which the buffer is filled"
            )
        else:
            continue
        text = (
            f"make the buffer of shuffle `{stage.name}` smaller, or shuffle file names or "
            f"keys instead of elements: {why}"
        )
        found.append(case.advise("large_shuffle", stage.node, text))
    return found


def floats_from_bytes(case: Case) -> list[Advice]:
    """Advises to cast bytes on the device where copies take much of the time."""
    if (case.memcpy_share or 0.0) < COPIES_MATTER_FRACTION:
        return []
    graph = case.explanation.graph.graph
    for stage in case.explanation.stages:
        step = case.step(stage)
        if "Map" in step.kind and _casts_bytes(graph, step):
            text = (
                f"keep uint8 in map `{stage.name}` and cast on the device: copying takes "
                f"{case.memcpy_share:.0%} of the time, and floats are four times the bytes"
            )
            return [case.advise("floats_from_bytes", stage.node, text)]
    return []


def _casts_bytes(graph: GraphDef, step: Step) -> bool:
    """Returns whether a stage's function casts uint8 to float32."""
    uint8, float32 = tf.uint8.as_datatype_enum, tf.float32.as_datatype_enum
    if "Cast" not in ops_of(graph, step):
        return False
    called = set(step.functions.values())
    return any(
        node.op == "Cast"
        and node.attr["SrcT"].type == uint8
        and node.attr["DstT"].type == float32
        for function in graph.library.function
        if function.signature.name in called
        for node in function.node_def
    )
