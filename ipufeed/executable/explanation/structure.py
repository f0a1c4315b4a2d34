"""Ops that a program has and another has not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.explanation.pairing import NUMBER, Pairing
from ipufeed.executable.explanation.values import is_of_gradient
from ipufeed.executable.hlo.hlo import Instruction, Module
from ipufeed.render.terminal_text import enumeration, named, printable
from ipufeed.render.units import counted

# What TensorFlow puts around a program's own ops.
GLUE = ("", "XLA_Args", "XLA_Retvals")
# Two programs of which less than that is the same are two programs.
LITTLE = 0.3
UNROLLED = (
    "they repeat ops that it has; if a Python loop repeats them, `loops.repeat` makes its "
    "count an input"
)


@dataclass(frozen=True)
class Op:
    """A TensorFlow op, of which a program has some instructions."""

    name: str
    type: str
    source: str

    def __str__(self) -> str:
        where = f", {printable(self.source)}" if self.source else ""
        return f"{named(self.name)} ({printable(self.type)}{where})"


def explain_structure(pairing: Pairing, *, explained: bool) -> tuple[list[Cause], int]:
    """What came and went.

    Args:
        pairing: Of the two programs' instructions.
        explained: Whether arguments, shapes or types have changed: then ops that are in
            both become other instructions because of that.

    Returns:
        The causes, and how many instructions follow from others.
    """
    kept = {one.op_name for one, _ in pairing.pairs}
    kept_after = {other.op_name for _, other in pairing.pairs}
    removed = ops(pairing.removed, kept)
    added = ops(pairing.added, kept_after)
    rest = [
        each
        for each, names in (
            *((each, kept) for each in pairing.removed),
            *((each, kept_after) for each in pairing.added),
        )
        if each.op_type not in GLUE and each.op_name in names
    ]
    before = {NUMBER.sub("", one.op_name) for one, _ in pairing.pairs}
    causes = op_causes(removed, added, before)
    if not rest or explained or causes:
        return causes, len(rest) if explained else 0
    names = Counter(each.op_name for each in rest)
    text = (
        f"{enumeration([named(name) for name in names])} became other instructions "
        f"({len(pairing.removed)} -> {len(pairing.added)})"
    )
    name = next(iter(names))
    causes.append(Cause("structure", text, "", name, source=rest[0].source))
    return causes, 0


def strangers(modules: tuple[Module, Module], pairing: Pairing) -> list[Cause]:
    """The causes for two programs that have next to nothing in common; else none."""
    sizes = [sum(1 for _ in module.instructions()) for module in modules]
    if len(pairing.pairs) >= LITTLE * max(sizes):
        return []
    text = (
        f"these are two programs, not one that changed: {len(pairing.pairs):,} of "
        f"{max(sizes):,} instructions are alike"
    )
    return [
        Cause("structure", text, "", "", sizes[0], sizes[1]),
        *explain_structure(pairing, explained=True)[0],
    ]


def ops(instructions: list[Instruction], kept: set[str]) -> list[Op]:
    """The ops all of whose instructions these are."""
    found: dict[str, Op] = {}
    for each in instructions:
        if each.op_type not in GLUE and each.op_name not in kept:
            found.setdefault(each.op_name, Op(each.op_name, each.op_type, each.source))
    return list(found.values())


def op_causes(removed: list[Op], added: list[Op], kept: set[str]) -> list[Cause]:
    """A sentence for an op in place of another; one for all new, one for all gone.

    Args:
        removed: Ops that went.
        added: Ops that came.
        kept: Names of those that stayed, without their numbers.
    """
    if len(removed) == 1 and len(added) == 1:
        one, other = removed[0], added[0]
        text = f"{other} is in place of {one}"
        return [
            Cause("structure", text, "", other.name, one.name, other.name, other.source)
        ]
    causes = []
    for found, verb in ((added, "new"), (removed, "gone")):
        if not found:
            continue
        found = sorted(found, key=lambda op: is_of_gradient(op.name))
        first = found[0]
        repeated = bool(added) != bool(removed) and all(
            NUMBER.sub("", op.name) in kept for op in found
        )
        advice = UNROLLED if repeated and len(found) > 1 else ""
        if len(found) == 1:
            text = f"op {first} is {verb}"
        else:
            names = enumeration([str(each) for each in found])
            text = f"{counted(len(found), 'op')} are {verb}: {names}"
        before, after = (None, len(found)) if verb == "new" else (len(found), None)
        causes.append(Cause("structure", text, advice, first.name, before, after))
    return causes
