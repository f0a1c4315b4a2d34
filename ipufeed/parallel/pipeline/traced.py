"""A pipeline's stages in one graph, and what their ops are: chained, stateful, copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.schedules import Position

# Of each op of ours that is chained, the input that is its token.
TOKEN_INPUTS = {
    "IpufeedClock": 0,
    "IpufeedDequeue": 1,
    "IpufeedEnqueue": -1,
    "IpufeedCollective": -1,
    "IpufeedHostCall": -1,
    "IpufeedStep": 1,
}


READS = ("ReadVariableOp", "ResourceGather")


# How the types of ops begin that change the variable whose handle is their first input.
WRITES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")


# Stateful by their definition, and the same wherever they are copied to.
COPIED = {
    "IpufeedHostNumber",
    "IpufeedReplicationIndex",
    "Placeholder",
    "ReadVariableOp",
    "ResourceGather",
    "VarHandleOp",
    "VariableShape",
}


@dataclass
class Traced:
    """Stages in one graph.

    Attributes:
        graph: The FuncGraph.
        owners: Of ops that stages have built, their forward position.
        backward: Of each forward position, its backward one; empty without training.
        results: What is accumulated over the mini-batches: tensors of `graph`.
        recomputes: Whether backward stages compute again what forward stages have.
    """

    graph: Any
    owners: dict[Any, Position] = field(default_factory=dict)
    backward: dict[Position, Position] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    recomputes: bool = False


def data_inputs(op: Any) -> list[Any]:
    """An op's inputs without the token that only orders it."""
    inputs = list(op.inputs)
    if op.type in TOKEN_INPUTS:
        del inputs[TOKEN_INPUTS[op.type]]
    return inputs


def in_order(ops: Iterable[Any], needs: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """The ops and all that they need, each after what it needs."""
    done: dict[Any, bool] = {}
    order: list[Any] = []
    for root in ops:
        stack: list[tuple[Any, Iterator[Any]]] = []
        if root not in done:
            done[root] = True
            stack.append((root, iter(needs(root))))
        while stack:
            op, rest = stack[-1]
            found = next((each for each in rest if each not in done), None)
            if found is None:
                order.append(op)
                stack.pop()
            else:
                done[found] = True
                stack.append((found, iter(needs(found))))
    return order


def is_assigned(handle: Any, graph: Any) -> bool:
    """Whether the traced graph changes a variable, or may in a function."""
    return any(
        consumer.type not in (*READS, "VariableShape")
        for consumer in handle.consumers()
    )


def has_effect(op: Any) -> bool:
    """Whether an op must run though its results are not needed."""
    if op.type in COPIED or not op.op_def.is_stateful:
        return False
    return not op.type.startswith(("Random", "Stateless", "VarIsInitialized"))


def can_cross(tensor: Any) -> bool:
    """Whether there is memory of a known size that could hold a tensor."""
    import tensorflow as tf

    if tensor.dtype in (tf.variant, tf.resource, tf.string):
        return False
    return bool(tensor.shape.is_fully_defined())


def constant_of(tensor: Any) -> Any:
    """The value of an integer tensor that is known, such as a shape; else None.

    XLA must know shapes when it compiles, and does not know what crosses.
    """
    from tensorflow.python.framework import tensor_util

    if not tensor.dtype.is_integer or tensor.op.op_def.is_stateful:
        return None
    if tensor.op.type == "Const":  # copied as it is, and it may be an argument
        return None
    if not tensor.shape.is_fully_defined() or tensor.shape.num_elements() > 64:
        return None
    return tensor_util.constant_value(tensor)


@dataclass
class Model:
    """Stages that have been traced.

    Attributes:
        traced: Their graph, and which op is whose.
        outputs: What the last stage has returned: tensors of the graph.
        structure: Likewise, as it was returned: a tensor, a list or a dict.
        optimizer: What the optimizer function has returned, if there is one.
        gradients: With it, gradients and variables; a gradient may be None.
        captured: Gradients in the middle of the stages, by tag and place in the tag's
            list: captured.py.
    """

    traced: Traced
    outputs: list[Any]
    structure: Any
    optimizer: OptimizerFunctionOutput | None = None
    gradients: list[tuple[Any, Any]] = field(default_factory=list)
    captured: dict[tuple[str, int], Any] = field(default_factory=dict)
