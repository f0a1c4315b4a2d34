"""Assigns the ops of a traced pipeline to positions.

All stages are traced into one graph, in which TensorFlow also builds the gradients. Then
each op gets a position:

    an op that a stage has built              -> that stage, forward
    an op of the gradient of such an op       -> that stage, backward
    any other that depends on one of these    -> the last position of its inputs
    the rest (constants, reads, arguments)    -> none: each stage has its own copy

A tensor that another position needs crosses: from one IPU to another, or on one IPU from an
iteration to a later one. The latter keeps activations for the backward stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ipufeed.parallel.pipeline.recomputation import repeats
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.parallel.pipeline.traced import (
    COPIED,
    READS,
    WRITES,
    Traced,
    can_cross,
    constant_of,
    data_inputs,
    has_effect,
    in_order,
    is_assigned,
)
from ipufeed.tf_types import FuncGraph, Operation, Tensor


@dataclass
class Part:
    """The ops of one position.

    Attributes:
        position: The position.
        ops: Ops to copy, inputs first.
        incoming: The tensors that it needs, by the position that has them.
        results: Numbers of the accumulated tensors that it computes.
    """

    position: Position
    ops: list[Operation] = field(default_factory=list)
    incoming: dict[Position, list[Tensor]] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)


def assign(traced: Traced, last: Position) -> dict[Operation, Position]:
    """Returns the position of each op that has one.

    Args:
        traced: The stages.
        last: The position of ops that must run once and have no inputs.
    """
    found: dict[Operation, Position] = {}

    def needs(op: Operation) -> list[Operation]:
        return [tensor.op for tensor in data_inputs(op)]

    for op in in_order(traced.graph.get_operations(), needs):
        position = traced.owners.get(op)
        if position is None:
            position = _of_gradient(op, traced)
        if position is None:
            inputs = [found[each] for each in needs(op) if each in found]
            position = max(inputs, key=place_of, default=None)
        if position is None and op.op_def.is_stateful and op.type not in COPIED:
            position = last
        if position is not None and not _is_copied(op, needs(op), found):
            found[op] = position
    return found


def place_of(position: Position) -> tuple[int, int]:
    """Returns the sort key of positions; the last concurrent stage may need the others."""
    return position.index, position.branch


def _of_gradient(op: Operation, traced: Traced) -> Position | None:
    """Returns the backward position of the op whose gradient contains this op."""
    original = op._original_op
    while original is not None:
        if original in traced.owners:
            return traced.backward.get(traced.owners[original])
        original = original._original_op
    return None


def _is_copied(
    op: Operation,
    inputs: list[Operation],
    found: dict[Operation, Position],
) -> bool:
    """Whether each position has its own copy of an op: it depends on no mini-batch.

    That is true of constants, arguments, variables that no stage assigns to, and ops of
    these alone. To keep their results for each mini-batch would multiply the weights.
    """
    if any(each in found for each in inputs):
        return False
    if op.type in READS:
        return not is_assigned(op.inputs[0])
    return op.type in COPIED or not op.op_def.is_stateful


def split(traced: Traced, positions: tuple[Position, ...]) -> list[Part]:
    """Returns the ops of each position, in the order of `positions`.

    Raises:
        ValueError: A stage needs a result of a later one, or stages of two IPUs assign to
            one variable.
    """
    forward = [each for each in positions if not each.backward]
    owners = assign(traced, forward[-1])
    _check_writers(traced, owners)
    forward_of = {back: there for there, back in traced.backward.items()}
    roots: dict[Position, list[Operation]] = {each: [] for each in positions}
    parts = {each: Part(each) for each in positions}
    for op, position in owners.items():
        if has_effect(op):
            roots[position].append(op)
    for number, tensor in enumerate(traced.results):
        position = owners.get(tensor.op, forward[-1])
        parts[position].results.append(number)
        roots[position].append(tensor.op)
    asked: dict[Position, dict[int, Tensor]] = {each: {} for each in positions}
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


def _check_writers(traced: Traced, owners: dict[Operation, Position]) -> None:
    """Raises ValueError if stages of two IPUs assign to one variable.

    Each IPU has its own copy of it.
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


def name_of(handle: Tensor, graph: FuncGraph) -> str:
    """Returns a variable's name in the program, by its handle in a traced graph."""
    around = {id(inside): outside for outside, inside in graph.captures}
    outside = around.get(id(handle), handle)
    for variable in graph._watched_variables:
        if variable.handle is outside:
            return str(variable.name)
    # An eager handle has no name; the placeholder for it has.
    return str(getattr(outside, "op", handle.op).name)


def walk(
    traced: Traced,
    part: Part,
    roots: list[Operation],
    asked: dict[int, Tensor],
    owners: dict[Operation, Position],
    forward_of: dict[Position, Position],
) -> dict[Position, list[Tensor]]:
    """Finds the ops of a position; returns the tensors that it needs, by position."""
    own = part.position
    partner = forward_of.get(own)
    incoming: dict[Position, dict[int, Tensor]] = {}

    def source_of(tensor: Tensor) -> Position | None:
        """Returns the position that has a tensor; None for the own one, or a copy."""
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
            # The forward stage keeps its inputs on the IPU.
            return partner
        return owner

    def needs(op: Operation) -> list[Operation]:
        return [tensor.op for tensor in data_inputs(op) if not note(tensor)]

    def note(tensor: Tensor) -> bool:
        """Records a tensor of another position; False if it is computed here."""
        if constant_of(tensor) is not None:
            return True
        source = source_of(tensor)
        if source is None:
            return False
        _check_crossing(tensor, source, own)
        incoming.setdefault(source, {})[id(tensor)] = tensor
        return True

    wanted = [tensor.op for tensor in asked.values() if not note(tensor)]
    # In the order of construction, which alone orders some ops, and in which an op comes
    # after those that it waits for. (A loop gets further inputs when its gradient is made.)
    places = {op: place for place, op in enumerate(traced.graph.get_operations())}
    members = in_order({*roots, *wanted}, needs)
    part.ops = in_order(sorted(members, key=places.__getitem__), needs)
    part.incoming = {
        source: sorted(tensors.values(), key=lambda each: places[each.op])
        for source, tensors in incoming.items()
    }
    return {source: list(tensors) for source, tensors in part.incoming.items()}


def _check_crossing(tensor: Tensor, source: Position, target: Position) -> None:
    """Raises ValueError if no buffer has the dtype and shape of a crossing tensor."""
    if can_cross(tensor):
        return
    raise ValueError(
        f"Stage {target.label} of the pipeline needs {tensor.name} of stage "
        f"{source.label}, which has dtype {tensor.dtype.name} and shape {tensor.shape}. "
        "What crosses between stages, or is kept for the backward stage, must be a "
        "numeric tensor of fully defined shape. Give the dataset drop_remainder=True; or "
        "take a loop with random ops out of a stage that trains."
    )
