"""Pairs the instructions of two programs.

    two computations --same kinds in the same order--> one to one
                     --else--> equal ones are anchors (difflib), gaps are aligned by weaker
                               signatures, equal rest has moved, other rest came or went

The entry computations form a pair, and so do the computations that paired instructions
call.

Source: the rounds from strict to loose are those of patience diff and of GumTree (Falleri
et al., "Fine-grained and accurate source code differencing", ASE 2014).
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from ipufeed.executable.hlo.hlo import Computation, Instruction, Module

# difflib's time grows with the product of the lengths; beyond this it compares rare
# instructions only (its autojunk).
MAX_PRODUCT = 4_000_000

# TensorFlow numbers ops of the same name: an added op renames all later ones.
NUMBER = re.compile(r"_\d+(?=/|$)")

Signature = Callable[[Instruction], Hashable]


@dataclass
class Pairing:
    """The pairs of two programs' instructions.

    Attributes:
        pairs: (before, after), in the order in which the program runs.
        removed: Instructions of the first program only.
        added: Instructions of the second program only.
        partner: Maps an instruction before to the one after.
    """

    pairs: list[tuple[Instruction, Instruction]] = field(default_factory=list)
    removed: list[Instruction] = field(default_factory=list)
    added: list[Instruction] = field(default_factory=list)
    partner: dict[Instruction, Instruction] = field(default_factory=dict)


def _kind(instruction: Instruction) -> Hashable:
    """Returns opcode and op of an instruction, without values and shapes."""
    return (
        instruction.opcode,
        instruction.op_type,
        instruction.target,
        NUMBER.sub("", instruction.op_name),
    )


def _exact(instruction: Instruction) -> Hashable:
    """Returns the kind and, for a constant, the value."""
    value = b""
    if instruction.opcode == "constant":
        value = instruction.proto.literal.SerializeToString(deterministic=True)
    return (_kind(instruction), value)


def _kind_only(instruction: Instruction) -> Hashable:
    """Returns the kind without the op's name and scope."""
    return (instruction.opcode, instruction.op_type, instruction.target)


def pair(before: Module, after: Module) -> Pairing:
    """Pairs the instructions of two programs."""
    result = Pairing()
    _visit(before.entry, after.entry, result, set())
    return result


def _visit(
    before: Computation, after: Computation, result: Pairing, seen: set[tuple[int, int]]
) -> None:
    if (before.id, after.id) in seen:
        return
    seen.add((before.id, after.id))
    pairs = _match(before, after)
    partners = dict(pairs)
    result.partner.update(partners)
    met = set(partners.values())
    result.removed += [each for each in before.instructions if each not in partners]
    result.added += [each for each in after.instructions if each not in met]
    place = {each: n for n, each in enumerate(after.instructions)}
    for one, other in sorted(pairs, key=lambda both: place[both[1]]):
        for called, now_called in zip(one.called, other.called, strict=False):
            _visit(called, now_called, result, seen)
        result.pairs.append((one, other))


def _match(
    first: Computation, second: Computation
) -> list[tuple[Instruction, Instruction]]:
    """Pairs the instructions of two computations; each is in at most one pair."""
    before, after = first.instructions, second.instructions
    lowered, needed = (before, after), (_as_needed(first), _as_needed(second))
    # Other names lead to another order of lowering.
    for (one, other), signature in (
        (lowered, _kind),
        (needed, _kind),
        (needed, _kind_only),
        (lowered, _kind_only),
    ):
        if list(map(signature, one)) == list(map(signature, other)):
            return list(zip(one, other, strict=True))
    pairs: list[tuple[Instruction, Instruction]] = []
    gaps = [(before, after)]
    for signature in (_exact, _kind, _kind_only):
        left = []
        for one, other in gaps:
            found, rest = _align(one, other, signature)
            pairs += found
            left += rest
        gaps = left
    removed = [each for one, _ in gaps for each in one]
    added = [each for _, other in gaps for each in other]
    for signature in (_exact, _kind):
        moved = _match_anywhere(removed, added, signature)
        pairs += moved
        gone, come = {one for one, _ in moved}, {other for _, other in moved}
        removed = [each for each in removed if each not in gone]
        added = [each for each in added if each not in come]
    return pairs


def _as_needed(computation: Computation) -> list[Instruction]:
    """Returns the instructions in the order in which the result needs them.

    XLA's own order depends on names of arguments and scopes, see canonical.cc; it is kept
    for instructions that no result needs.
    """
    instructions, root = computation.instructions, computation.root
    ordered: dict[Instruction, None] = {}
    parameters = [each for each in instructions if each.parameter >= 0]
    parameters.sort(key=lambda each: each.parameter)
    waiting = [*reversed(instructions), *([root] if root is not None else [])]
    waiting += reversed(parameters)
    while waiting:
        each = waiting[-1]
        missing = [one for one in each.operands if one not in ordered]
        if each in ordered or not missing:
            ordered.setdefault(each)
            waiting.pop()
        else:
            waiting += reversed(missing)
    return list(ordered)


Gap = tuple[list[Instruction], list[Instruction]]


def _align(
    before: list[Instruction], after: list[Instruction], signature: Signature
) -> tuple[list[tuple[Instruction, Instruction]], list[Gap]]:
    """Pairs equal instructions in the same order; returns also the gaps in between."""
    one, other = (
        [signature(each) for each in before],
        [signature(each) for each in after],
    )
    start = _common_prefix(one, other)
    end = _common_prefix(one[start:][::-1], other[start:][::-1])
    stop, stop_after = len(one) - end, len(other) - end
    pairs = list(zip(before[:start], after[:start], strict=True))
    pairs += zip(before[stop:], after[stop_after:], strict=True)
    middle, middle_after = one[start:stop], other[start:stop_after]
    many = len(middle) * len(middle_after) > MAX_PRODUCT
    matcher = difflib.SequenceMatcher(None, middle, middle_after, autojunk=many)
    gaps = []
    for tag, a, b, c, d in matcher.get_opcodes():
        inner, inner_after = before[start + a : start + b], after[start + c : start + d]
        if tag == "equal":
            pairs += zip(inner, inner_after, strict=True)
        else:
            gaps.append((inner, inner_after))
    return pairs, gaps


def _common_prefix(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Returns the length of the common prefix."""
    for n, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return n
    return min(len(one), len(other))


def _match_anywhere(
    before: list[Instruction], after: list[Instruction], signature: Signature
) -> list[tuple[Instruction, Instruction]]:
    """Pairs equal instructions in any order."""
    waiting: dict[Hashable, list[Instruction]] = defaultdict(list)
    for each in reversed(after):
        waiting[signature(each)].append(each)
    return [
        (each, waiting[signature(each)].pop())
        for each in before
        if waiting[signature(each)]
    ]
