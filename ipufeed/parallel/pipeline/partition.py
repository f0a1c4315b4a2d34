"""Which op of a traced pipeline belongs to which position.

All stages are traced into one graph, where TensorFlow also takes the gradients, as of any
model. Then each op gets a position:

    an op that a stage has built              -> that stage, forward
    an op of the gradient of such an op       -> that stage, backward
    any other that depends on one of these    -> where the last of its inputs is
    the rest (constants, reads, arguments)    -> nowhere: each stage has its own copy

and a tensor that is needed elsewhere crosses: from one IPU to another, or on one IPU from
an iteration to a later one. The second is what keeps activations for the backward stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
    """When it runs; the last of concurrent stages may need the others."""
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
            # What the forward stage has got stays on the IPU.
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
