"""Properties of datasets, stages and functions, read from the graph without a call."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.python_ops import PYTHON_OPS
from ipufeed.tf_types import Dataset, GraphDef, NodeDef

READING_OPS = {"ReadFile", "IO>ReadFile"}
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV")
# Ops that treat each number on its own: a batch gives the same as its elements one by one.
ELEMENTWISE_OPS = {
    "Abs", "Add", "AddV2", "BiasAdd", "Cast", "ClipByValue", "Const", "Div", "DivNoNan",
    "Equal", "Exp", "Floor", "FloorDiv", "Greater", "GreaterEqual", "Identity", "Less",
    "LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum",
    "Mod", "Mul", "Neg", "NoOp", "NotEqual", "Placeholder", "Pow", "RealDiv", "Relu",
    "Round", "Rsqrt", "Sigmoid", "Sign", "Sqrt", "Square", "SquaredDifference", "Sub",
    "Tanh", "_Arg", "_Retval",
}  # fmt: skip


def graph_nodes(dataset: Dataset) -> Iterator[NodeDef]:
    """Yields all nodes of a dataset's serialised graph and of its functions.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    from tensorflow.python.data.ops import options

    if tf.is_symbolic_tensor(dataset._variant_tensor):
        graph_def = dataset._variant_tensor.graph.as_graph_def()
    else:
        serialized = dataset._as_serialized_graph(
            external_state_policy=options.ExternalStatePolicy.IGNORE
        )
        graph_def = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def calls_python(dataset: Dataset) -> bool:
    """Returns whether a dataset calls Python: from_generator, py_function, numpy_function.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    return any(node.op in PYTHON_OPS for node in graph_nodes(dataset))


def ops_of(graph: GraphDef, step: Step) -> set[str]:
    """Returns the ops in a stage's functions and in all functions that these call."""
    return {node.op for node in nodes_of(graph, step)}


def nodes_of(graph: GraphDef, step: Step) -> Iterator[NodeDef]:
    """Yields the nodes in a stage's functions and in all functions that these call."""
    library = {each.signature.name: each for each in graph.library.function}
    seen: set[str] = set()
    stack = list(step.functions.values())
    while stack:
        name = stack.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for node in library[name].node_def:
            yield node
            for value in node.attr.values():
                if value.WhichOneof("value") == "func":
                    stack.append(value.func.name)
                stack += [each.name for each in value.list.func]


def runs_python(graph: GraphDef, step: Step) -> bool:
    """Returns whether a stage calls Python, where the GIL allows one call at a time."""
    return bool(ops_of(graph, step) & PYTHON_OPS)


def is_random(graph: GraphDef, step: Step) -> bool:
    """Returns whether two passes may differ, as far as the graph shows."""
    ops = ops_of(graph, step)
    return (
        "Shuffle" in step.kind
        or step.kind in ("Random", "Generator", "Sampling", "DirectedInterleave")
        or bool(ops & PYTHON_OPS)
        or any("Random" in op or "Multinomial" in op for op in ops)
    )


def reads_files(graph: GraphDef, step: Step) -> bool:
    """Returns whether a stage, or a dataset inside its functions, reads files."""
    return (
        step.kind.startswith(READERS)
        or file_reader(graph, step) is not None
        or bool(ops_of(graph, step) & READING_OPS)
    )


def file_reader(graph: GraphDef, step: Step) -> str | None:
    """Returns `TFRecord` for a stage whose function makes a TFRecordDataset; else None."""
    for op in sorted(ops_of(graph, step)):
        if op.startswith(READERS) and "Dataset" in op:
            return op[: op.index("Dataset")]
    return None


def is_elementwise(graph: GraphDef, step: Step) -> bool:
    """Returns whether a stage's function can take a batch in place of its elements."""
    ops = ops_of(graph, step)
    return bool(ops) and ops <= ELEMENTWISE_OPS
