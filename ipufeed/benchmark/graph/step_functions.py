"""Properties of a step's function, read from the graph without calling it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.python_ops import PYTHON_OPS

READING_OPS = {"ReadFile", "IO>ReadFile"}
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV")
# Work on each number alone: on a batch as on its elements.
ELEMENTWISE_OPS = {
    "Abs", "Add", "AddV2", "BiasAdd", "Cast", "ClipByValue", "Const", "Div", "DivNoNan",
    "Equal", "Exp", "Floor", "FloorDiv", "Greater", "GreaterEqual", "Identity", "Less",
    "LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum",
    "Mod", "Mul", "Neg", "NoOp", "NotEqual", "Placeholder", "Pow", "RealDiv", "Relu",
    "Round", "Rsqrt", "Sigmoid", "Sign", "Sqrt", "Square", "SquaredDifference", "Sub",
    "Tanh", "_Arg", "_Retval",
}  # fmt: skip


def ops_of(graph: Any, step: Step) -> set[str]:
    """The ops in a step's functions and in all that these call."""
    return {node.op for node in nodes_of(graph, step)}


def nodes_of(graph: Any, step: Step) -> Iterator[Any]:
    """The nodes in a step's functions and in all that these call."""
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


def runs_python(graph: Any, step: Step) -> bool:
    """Whether the step calls back into the interpreter, which runs one at a time."""
    return bool(ops_of(graph, step) & PYTHON_OPS)


def is_random(graph: Any, step: Step) -> bool:
    """Whether two passes may differ, as far as the graph shows."""
    ops = ops_of(graph, step)
    return (
        "Shuffle" in step.kind
        or step.kind in ("Random", "Generator", "Sampling", "DirectedInterleave")
        or bool(ops & PYTHON_OPS)
        or any("Random" in op or "Multinomial" in op for op in ops)
    )


def reads_files(graph: Any, step: Step) -> bool:
    """Whether the step, or a dataset that it makes, reads files."""
    return (
        step.kind.startswith(READERS)
        or file_reader(graph, step) is not None
        or bool(ops_of(graph, step) & READING_OPS)
    )


def file_reader(graph: Any, step: Step) -> str | None:
    """`TFRecord` for a step whose function makes a dataset of such files, or None."""
    for op in sorted(ops_of(graph, step)):
        if op.startswith(READERS) and "Dataset" in op:
            return op[: op.index("Dataset")]
    return None


def is_elementwise(graph: Any, step: Step) -> bool:
    """Whether the function works on a batch as on its elements."""
    ops = ops_of(graph, step)
    return bool(ops) and ops <= ELEMENTWISE_OPS
