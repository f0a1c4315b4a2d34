"""Which instruction of one program is which of another.

    two computations --same kinds in the same order?--> one to one
                     --not--> equal ones anchor (difflib), the gaps are aligned by less,
                              what is left and equal has moved; the rest came or went

The entry computations belong together, and so do those that paired instructions call.

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

# difflib's time grows with the product of the lengths; beyond this it looks at rare
# instructions only (its autojunk).
MAX_PRODUCT = 4_000_000

# TensorFlow numbers the ops of one name: an op more renames all that come after it.
NUMBER = re.compile(r"_\d+(?=/|$)")

Signature = Callable[[Instruction], Hashable]


@dataclass
class Pairing:
    """What became of the instructions of a program.

    Attributes:
        pairs: (before, after), in the order in which the program runs.
        removed: Instructions of the first that the second does not have.
        added: Instructions of the second that the first does not have.
        partner: From an instruction before to the one after.
    """

    pairs: list[tuple[Instruction, Instruction]] = field(default_factory=list)
    removed: list[Instruction] = field(default_factory=list)
    added: list[Instruction] = field(default_factory=list)
    partner: dict[Instruction, Instruction] = field(default_factory=dict)


def kind(instruction: Instruction) -> Hashable:
    """What an instruction does, and for which op: neither values nor shapes."""
    return (
        instruction.opcode,
        instruction.op_type,
        instruction.target,
        NUMBER.sub("", instruction.op_name),
    )


def exact(instruction: Instruction) -> Hashable:
    """Its kind and, of a constant, its value."""
    value = b""
    if instruction.opcode == "constant":
        value = instruction.proto.literal.SerializeToString(deterministic=True)
    return (kind(instruction), value)


def nameless(instruction: Instruction) -> Hashable:
    """Its kind, in whatever scope it is."""
    return (instruction.opcode, instruction.op_type, instruction.target)


def pair(before: Module, after: Module) -> Pairing:
    """Pairs the instructions of two programs."""
    result = Pairing()
    _visit(before.entry, after.entry, result, set())
    return result


def _visit(
    before: Computation,
    after: Computation,
    result: Pairing,
    seen: set[tuple[int, int]],
) -> None:
    if (before.id, after.id) in seen:
        return
    seen.add((before.id, after.id))
    pairs = match(before, after)
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


def match(
    first: Computation, second: Computation
) -> list[tuple[Instruction, Instruction]]:
    """Pairs of two computations; each instruction is in one at most."""
    before, after = first.instructions, second.instructions
    lowered, needed = (before, after), (as_needed(first), as_needed(second))
    # Where names are others, so is the order in which they were lowered.
    for (one, other), signature in (
        (lowered, kind),
        (needed, kind),
        (needed, nameless),
        (lowered, nameless),
    ):
        if list(map(signature, one)) == list(map(signature, other)):
            return list(zip(one, other, strict=True))
    pairs: list[tuple[Instruction, Instruction]] = []
    gaps = [(before, after)]
    for signature in (exact, kind, nameless):
        left = []
        for one, other in gaps:
            found, rest = align(one, other, signature)
            pairs += found
            left += rest
        gaps = left
    removed = [each for one, _ in gaps for each in one]
    added = [each for _, other in gaps for each in other]
    for signature in (exact, kind):
        moved = match_anywhere(removed, added, signature)
        pairs += moved
        gone, come = {one for one, _ in moved}, {other for _, other in moved}
        removed = [each for each in removed if each not in gone]
        added = [each for each in added if each not in come]
    return pairs


def as_needed(computation: Computation) -> list[Instruction]:
    """Instructions in the order in which the result needs them, operands first.

    XLA's own order depends on what arguments and scopes are called, see canonical.cc; it
    stays for what no result needs.
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


def align(
    before: list[Instruction], after: list[Instruction], signature: Signature
) -> tuple[list[tuple[Instruction, Instruction]], list[Gap]]:
    """Pairs what is equal and in the same order; gives that, and the gaps in between."""
    one, other = (
        [signature(each) for each in before],
        [signature(each) for each in after],
    )
    start = common_prefix(one, other)
    end = common_prefix(one[start:][::-1], other[start:][::-1])
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


def common_prefix(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many first items are equal."""
    for n, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return n
    return min(len(one), len(other))


def match_anywhere(
    before: list[Instruction], after: list[Instruction], signature: Signature
) -> list[tuple[Instruction, Instruction]]:
    """Pairs what is equal, in whatever order it is."""
    waiting: dict[Hashable, list[Instruction]] = defaultdict(list)
    for each in reversed(after):
        waiting[signature(each)].append(each)
    return [
        (each, waiting[signature(each)].pop())
        for each in before
        if waiting[signature(each)]
    ]
