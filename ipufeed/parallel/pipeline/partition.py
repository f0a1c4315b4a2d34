"""Which op of a traced pipeline belongs to which position.

All stages are traced into one graph, where TensorFlow also takes the gradients, as of any
model. Then each op gets a position:

    an op that a stage has built              -> that stage, forward
    an op of the gradient of such an op       -> that stage, backward
    any other that depends on one of these    -> where the last of its inputs is
    the rest (constants, reads, arguments)    -> nowhere: each stage has its own copy

and a tensor that is needed elsewhere crosses: from one IPU to another, or on one IPU from
a turn to a later one. The second is what keeps activations for the backward stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ipufeed.parallel.pipeline.schedules import Position

# Of each op of ours that is chained, the input that is its token.
TOKEN_INPUTS = {
    "IpufeedClock": 0,
    "IpufeedDequeue": 1,
    "IpufeedEnqueue": -1,
    "IpufeedExchange": -1,
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


@dataclass
class Part:
    """What one position does.

    Attributes:
        position: Which.
        ops: Ops to copy, inputs first.
        incoming: From each other position, the tensors that it needs.
        results: Numbers of the accumulated tensors that are its own.
    """

    position: Position
    ops: list[Any] = field(default_factory=list)
    incoming: dict[Position, list[Any]] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)


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


def assign(traced: Traced, last: Position) -> dict[Any, Position]:
    """The position of each op that has one.

    Args:
        traced: The stages.
        last: The position of what must happen once and depends on nothing.
    """
    found: dict[Any, Position] = {}

    def needs(op: Any) -> list[Any]:
        return [tensor.op for tensor in data_inputs(op)]

    for op in in_order(traced.graph.get_operations(), needs):
        position = traced.owners.get(op)
        if position is None:
            position = of_gradient(op, traced)
        if position is None:
            inputs = [found[each] for each in needs(op) if each in found]
            position = max(inputs, key=place_of, default=None)
        if position is None and op.op_def.is_stateful and op.type not in COPIED:
            position = last
        if position is not None and not is_copied(op, traced, needs(op), found):
            found[op] = position
    return found


def place_of(position: Position) -> tuple[int, int]:
    """By when it is its turn; the last of concurrent stages may need the others."""
    return position.index, position.branch


def of_gradient(op: Any, traced: Traced) -> Position | None:
    """The backward position of the op whose gradient this is a part of."""
    original = op._original_op
    while original is not None:
        if original in traced.owners:
            return traced.backward.get(traced.owners[original])
        original = original._original_op
    return None


def is_copied(
    op: Any, traced: Traced, inputs: list[Any], found: dict[Any, Position]
) -> bool:
    """Whether an op is as good anywhere: what depends on no mini-batch.

    Constants, arguments, variables that no stage assigns to, and what is computed of
    these alone: to keep that for each mini-batch would be to keep weights many times.
    """
    if any(each in found for each in inputs):
        return False
    if op.type in READS:
        return not is_assigned(op.inputs[0], traced.graph)
    return op.type in COPIED or not op.op_def.is_stateful


def is_assigned(handle: Any, graph: Any) -> bool:
    """Whether the traced graph changes a variable, or may in a function."""
    return any(
        consumer.type not in (*READS, "VariableShape")
        for consumer in handle.consumers()
    )


def split(traced: Traced, positions: tuple[Position, ...]) -> list[Part]:
    """What each position does, in the order of `positions`.

    Raises:
        ValueError: a stage needs what a later one computes, or stages of two IPUs assign
            to one variable.
    """
    forward = [each for each in positions if not each.backward]
    owners = assign(traced, forward[-1])
    check_writers(traced, owners)
    forward_of = {back: there for there, back in traced.backward.items()}
    roots: dict[Position, list[Any]] = {each: [] for each in positions}
    parts = {each: Part(each) for each in positions}
    for op, position in owners.items():
        if has_effect(op):
            roots[position].append(op)
    for number, tensor in enumerate(traced.results):
        position = owners.get(tensor.op, forward[-1])
        parts[position].results.append(number)
        roots[position].append(tensor.op)
    asked: dict[Position, dict[int, Any]] = {each: {} for each in positions}
    waiting = list(positions)
    while waiting:
        position = waiting.pop()
        again = walk(
            traced,
            parts[position],
            roots[position],
            asked[position],
            owners,
            forward_of,
        )
        for source, tensors in again.items():
            new = {id(each): each for each in tensors if id(each) not in asked[source]}
            if new:
                asked[source].update(new)
                if source not in waiting:
                    waiting.append(source)
    return [parts[each] for each in positions]


def check_writers(traced: Traced, owners: dict[Any, Position]) -> None:
    """Refuses stages of two IPUs that assign to one variable: each has its own copy.

    Raises:
        ValueError: There are such.
    """
    writers: dict[int, Position] = {}
    for op, position in owners.items():
        if not op.type.startswith(WRITES):
            continue
        handle = op.inputs[0]
        other = writers.setdefault(id(handle), position)
        if other.device != position.device:
            raise ValueError(
                f"Stage {other.label} of the pipeline, on IPU {other.device}, and stage "
                f"{position.label}, on IPU {position.device}, both assign to the variable "
                f"{name_of(handle, traced.graph)}. Only stages of one IPU may: put both on "
                "one (`device_mapping`), or give each a variable of its own."
            )


def name_of(handle: Any, graph: Any) -> str:
    """What a variable is called in the program, by its handle in a traced graph."""
    around = {id(inside): outside for outside, inside in graph.captures}
    outside = around.get(id(handle), handle)
    for variable in graph._watched_variables:
        if variable.handle is outside:
            return str(variable.name)
    # An eager handle has no name; the placeholder for it has.
    return str(getattr(outside, "op", handle.op).name)


def has_effect(op: Any) -> bool:
    """Whether an op must run though its results are not needed."""
    if op.type in COPIED or not op.op_def.is_stateful:
        return False
    return not op.type.startswith(("Random", "Stateless", "VarIsInitialized"))


def walk(
    traced: Traced,
    part: Part,
    roots: list[Any],
    asked: dict[int, Any],
    owners: dict[Any, Position],
    forward_of: dict[Position, Position],
) -> dict[Position, list[Any]]:
    """Finds what a position needs; gives what it asks others for."""
    own = part.position
    partner = forward_of.get(own)
    incoming: dict[Position, dict[int, Any]] = {}

    def source_of(tensor: Any) -> Position | None:
        """Where a tensor comes from; None if the position has it, or copies it."""
        owner = owners.get(tensor.op)
        if owner is None or owner == own:
            return None
        if owner.index > own.index:
            raise ValueError(
                f"Stage {own.label} of the pipeline needs {tensor.name}, which stage "
                f"{owner.label} computes later."
            )
        if partner is not None and owner.index <= partner.index:
            again = traced.recomputes or not can_cross(tensor)
            if again and owner == partner and repeats(tensor, traced):
                return None
            # What the forward stage has got stays on the chip.
            return partner
        return owner

    def needs(op: Any) -> list[Any]:
        return [tensor.op for tensor in data_inputs(op) if not note(tensor)]

    def note(tensor: Any) -> bool:
        """Whether it need not be computed here."""
        if constant_of(tensor) is not None:
            return True
        source = source_of(tensor)
        if source is None:
            return False
        check_crossing(tensor, source, own)
        incoming.setdefault(source, {})[id(tensor)] = tensor
        return True

    wanted = [tensor.op for tensor in asked.values() if not note(tensor)]
    # In the order in which they were built, for what is ordered by that alone.
    places = {op: place for place, op in enumerate(traced.graph.get_operations())}
    starts = sorted({*roots, *wanted}, key=places.__getitem__)
    part.ops = in_order(starts, needs)
    part.incoming = {
        source: sorted(tensors.values(), key=lambda each: places[each.op])
        for source, tensors in incoming.items()
    }
    return {source: list(tensors) for source, tensors in part.incoming.items()}


def can_cross(tensor: Any) -> bool:
    """Whether there is memory of a known size that could hold a tensor."""
    import tensorflow as tf

    if tensor.dtype in (tf.variant, tf.resource, tf.string):
        return False
    return bool(tensor.shape.is_fully_defined())


def check_crossing(tensor: Any, source: Position, target: Position) -> None:
    """Refuses what can neither be sent nor kept.

    Raises:
        ValueError: Its dtype or its shape is not one that a buffer could have.
    """
    if can_cross(tensor):
        return
    raise ValueError(
        f"Stage {target.label} of the pipeline needs {tensor.name} of stage "
        f"{source.label}, which has dtype {tensor.dtype.name} and shape {tensor.shape}. "
        "What crosses between stages, or is kept for the backward stage, must be a "
        "numeric tensor of fully defined shape. Give the dataset drop_remainder=True; or "
        "take a loop with random ops out of a stage that trains."
    )


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


def repeats(tensor: Any, traced: Traced) -> bool:
    """Whether computing a tensor of a forward stage again gives the same."""
    op = tensor.op
    if op.type in READS and is_assigned(op.inputs[0], traced.graph):
        return False
    if op.op_def.is_stateful and op.type not in COPIED and not only_reads(op):
        return False
    return CHECKPOINT not in op.node_def.attr and op in traced.owners


def only_reads(op: Any) -> bool:
    """Whether a loop or a branch does nothing but read variables: it can be repeated."""
    if op.type not in ("While", "If"):
        return False
    for value in op.node_def.attr.values():
        if not value.HasField("func"):
            continue
        function = op.graph._get_function(value.func.name)
        if function is None:
            return False
        for inner in function.graph.get_operations():
            if inner.op_def.is_stateful and inner.type not in (*COPIED, *READS):
                return False
    return True


# Of ops whose results are kept, and not computed again.
CHECKPOINT = "_ipufeed_checkpoint"


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Tensors of a pipeline's stage that are kept, where the rest is computed again.

    Args:
        tensors: A tensor, or any structure of them.
        name: Of the operations. Default: None.

    Returns:
        The same, to be used from there on in place of `tensors`.
    """
    import tensorflow as tf

    def mark(tensor: Any) -> Any:
        marked = tf.identity(tensor, name=name or "recomputation_checkpoint")
        if not tf.executing_eagerly():
            marked.op._set_attr(CHECKPOINT, tf.compat.v1.AttrValue(b=True))
        return marked

    return tf.nest.map_structure(mark, tensors)
