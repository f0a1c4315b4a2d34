"""A pipeline's traced stages, and properties of their ops: chained, stateful, copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util

from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.tf_types import FuncGraph, GradAndVar, Nest, Operation, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

# ipufeed's chained ops -> the input that is the token.
TOKEN_INPUTS = {
    "IpufeedAssert": -1,
    "IpufeedClock": 0,
    "IpufeedDequeue": 1,
    "IpufeedEnqueue": -1,
    "IpufeedCollective": -1,
    "IpufeedHostCall": -1,
    "IpufeedStep": 1,
}
READS = ("ReadVariableOp", "ResourceGather")
# Prefixes of the types of ops that assign to the variable of their first input.
WRITES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")
# Declared stateful, but every copy gives the same result.
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
        owners: The forward position of ops that stages have built.
        backward: The backward position of each forward one; empty in inference.
        results: The tensors of `graph` that are accumulated over the mini-batches.
        recomputes: Whether backward stages recompute activations.
    """

    graph: FuncGraph
    owners: dict[Operation, Position] = field(default_factory=dict)
    backward: dict[Position, Position] = field(default_factory=dict)
    results: list[Tensor] = field(default_factory=list)
    recomputes: bool = False


def data_inputs(op: Operation) -> list[Tensor]:
    """Returns an op's inputs without the token, which only orders it."""
    inputs = list(op.inputs)
    if op.type in TOKEN_INPUTS:
        del inputs[TOKEN_INPUTS[op.type]]
    return inputs


def in_order(
    ops: Iterable[Operation], needs: Callable[[Operation], Iterable[Operation]]
) -> list[Operation]:
    """Returns the ops and their transitive needs in topological order."""
    done: dict[Operation, bool] = {}
    order: list[Operation] = []
    for root in ops:
        stack: list[tuple[Operation, Iterator[Operation]]] = []
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


def is_assigned(handle: Tensor) -> bool:
    """Whether the traced graph assigns to a variable, or may in a function."""
    return any(
        consumer.type not in (*READS, "VariableShape")
        for consumer in handle.consumers()
    )


def has_effect(op: Operation) -> bool:
    """Whether an op must run even if its results are not used."""
    if op.type in COPIED or not op.op_def.is_stateful:
        return False
    pure = ("Empty", "Random", "Stateless", "VarIsInitialized")
    return not op.type.startswith(pure)


def can_cross(tensor: Tensor) -> bool:
    """Whether a tensor fits a buffer: it has a numeric dtype and a known shape."""
    if tensor.dtype in (tf.variant, tf.resource, tf.string):
        return False
    return bool(tensor.shape.is_fully_defined())


def is_known(tensor: Tensor) -> bool:
    """Returns whether an integer tensor, such as a shape, has its value in the graph."""
    return tensor.dtype.is_integer and tensor_util.constant_value(tensor) is not None


def constant_of(tensor: Tensor) -> NDArray[Any] | None:
    """Returns the value of a constant integer tensor, such as a shape, or None.

    XLA must know shapes when it compiles; tensors that cross are not constant to it.
    """
    if not tensor.dtype.is_integer or tensor.op.op_def.is_stateful:
        return None
    if tensor.op.type == "Const":  # is copied as an op, and may be an argument
        return None
    if not tensor.shape.is_fully_defined() or tensor.shape.num_elements() > 64:
        return None
    value: NDArray[Any] | None = tensor_util.constant_value(tensor)
    return value


@dataclass
class Model:
    """Stages that have been traced.

    Attributes:
        traced: Their graph, and the positions of its ops.
        outputs: The last stage's results: tensors of the graph.
        structure: The same as the stage returned them: a tensor, a list or a dict.
        optimizer: The result of the optimizer function, in training.
        gradients: Pairs of a gradient, or None, and a variable, in training.
        captured: Captured gradients, by tag and place in the tag's list.
    """

    traced: Traced
    outputs: list[Tensor]
    structure: Nest
    optimizer: OptimizerFunctionOutput | None = None
    gradients: list[GradAndVar] = field(default_factory=list)
    captured: dict[tuple[str, int], Tensor] = field(default_factory=dict)
