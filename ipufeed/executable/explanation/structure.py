"""Compares the ops of two programs: added and removed ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.explanation.pairing import NUMBER, Pairing
from ipufeed.executable.explanation.values import is_of_gradient
from ipufeed.executable.hlo.hlo import Instruction, Module
from ipufeed.render.terminal_text import enumeration, named, printable
from ipufeed.render.units import counted

# Types of ops that TensorFlow adds around a program's own.
GLUE = ("", "XLA_Args", "XLA_Retvals")
# Below this fraction of common instructions two programs are unrelated.
MIN_COMMON = 0.3
UNROLLED = (
    "they repeat ops that it has; if a Python loop repeats them, `loops.repeat` makes its "
    "count an input"
)


@dataclass(frozen=True)
class _Op:
    """A TensorFlow op that a program has instructions of."""

    name: str
    type: str
    source: str

    def __str__(self) -> str:
        where = f", {printable(self.source)}" if self.source else ""
        return f"{named(self.name)} ({printable(self.type)}{where})"


def explain_structure(pairing: Pairing, *, explained: bool) -> tuple[list[Cause], int]:
    """Explains added and removed ops.

    Args:
        pairing: The pairs of the two programs' instructions.
        explained: Whether arguments, shapes or types have changed, which turns ops of
            both programs into other instructions.

    Returns:
        The causes, and the number of instructions that follow from other changes.
    """
    kept = {one.op_name for one, _ in pairing.pairs}
    kept_after = {other.op_name for _, other in pairing.pairs}
    removed = _ops(pairing.removed, kept)
    added = _ops(pairing.added, kept_after)
    rest = [
        each
        for each, names in (
            *((each, kept) for each in pairing.removed),
            *((each, kept_after) for each in pairing.added),
        )
        if each.op_type not in GLUE and each.op_name in names
    ]
    before = {NUMBER.sub("", one.op_name) for one, _ in pairing.pairs}
    causes = _op_causes(removed, added, before)
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


def explain_unrelated(modules: tuple[Module, Module], pairing: Pairing) -> list[Cause]:
    """Returns causes for two unrelated programs; [] if they have enough in common."""
    sizes = [sum(1 for _ in module.instructions()) for module in modules]
    if len(pairing.pairs) >= MIN_COMMON * max(sizes):
        return []
    text = (
        f"these are two programs, not one that changed: {len(pairing.pairs):,} of "
        f"{max(sizes):,} instructions are alike"
    )
    return [
        Cause("structure", text, "", "", sizes[0], sizes[1]),
        *explain_structure(pairing, explained=True)[0],
    ]


def _ops(instructions: list[Instruction], kept: set[str]) -> list[_Op]:
    """Returns the ops that have only instructions among these."""
    found: dict[str, _Op] = {}
    for each in instructions:
        if each.op_type not in GLUE and each.op_name not in kept:
            found.setdefault(each.op_name, _Op(each.op_name, each.op_type, each.source))
    return list(found.values())


def _op_causes(removed: list[_Op], added: list[_Op], kept: set[str]) -> list[Cause]:
    """Returns a cause for a replaced op, or one for all added and one for all removed.

    Args:
        removed: Ops of the first program only.
        added: Ops of the second program only.
        kept: Names of the ops of both, without their numbers.
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
