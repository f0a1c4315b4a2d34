"""The programs that this process has had, and a warning when one is compiled too often."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from ipufeed.device.log import LOGGER
from ipufeed.executable.program.names import ANONYMOUS
from ipufeed.executable.program.program import Program

# The first compilation of a program is none; with the third recompilation the pattern is
# clear.
WARN_AT = 3
# Of two programs without a name, so much of the ops must be the same for one to be the
# other, changed.
ALIKE = 0.8

AGAIN = (
    "the program is the same, but nothing held it any more: keep the function or session, "
    "or set --executable_cache_path in TF_POPLAR_FLAGS"
)


Ops = Counter[tuple[str, str]]


@dataclass
class _Known:
    """A program that came, which one it belongs to, and its ops if it has no name."""

    program: Program
    family: int
    ops: Ops | None


class History:
    """The programs that this process has compiled, or read from the cache. Any thread.

    What has one name is one program, changed; what has none is one if it is alike. The
    programs are kept up to `MAX_BYTES` together; of older ones only the number remains.
    """

    MAX_BYTES = 256 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[_Known] = []
        self._compiles: Counter[int] = Counter()
        self._names: dict[str, int] = {}
        self._families = 0

    def add(self, program: Program, *, compiled: bool) -> None:
        """Remembers a program, and warns when it has been compiled too often."""
        ops = ops_if_anonymous(program)
        with self._lock:
            last = self._relative(program, ops)
            family = self._family(program, last)
            self._known.append(_Known(program, family, ops))
            total = sum(len(each.program.hlo) for each in self._known)
            while total > self.MAX_BYTES and len(self._known) > 1:
                total -= len(self._known.pop(0).program.hlo)
            if not compiled:
                return
            recompiles = self._compiles[family]  # this is the one after
            self._compiles[family] += 1
        if last is None or not is_power_of_two(recompiles - WARN_AT + 1):
            return
        LOGGER.warning(
            "Program %s has been compiled %d times by this process. The last time: %s. "
            'See ipufeed.executable.explain, and the page "Compile once" of the '
            "documentation.",
            program.name,
            recompiles + 1,
            cause(last.program, program),
        )

    def last(self, program: Program) -> Program | None:
        """What the program was when it came last; None if it is the first."""
        ops = ops_if_anonymous(program)
        with self._lock:
            known = self._relative(program, ops)
        return None if known is None else known.program

    def programs(self) -> list[Program]:
        """All that are remembered, the oldest first."""
        with self._lock:
            return [each.program for each in self._known]

    def _relative(self, program: Program, ops: Ops | None) -> _Known | None:
        for each in reversed(self._known):
            if each.program.name != program.name:
                continue
            if ops is None or each.ops is None or are_alike(each.ops, ops):
                return each
        return None

    def _family(self, program: Program, last: _Known | None) -> int:
        if last is not None:
            return last.family
        named = program.name not in ANONYMOUS
        if named and program.name in self._names:  # its text is no longer kept
            return self._names[program.name]
        self._families += 1
        if named:
            self._names[program.name] = self._families
        return self._families


def is_power_of_two(number: int) -> bool:
    """1, 2, 4, ...: warnings become rarer."""
    return number > 0 and number & (number - 1) == 0


def are_alike(one: Ops, other: Ops) -> bool:
    """Whether most ops of two programs are the same."""
    return (one & other).total() >= ALIKE * max(one.total(), other.total(), 1)


def ops_if_anonymous(program: Program) -> Ops | None:
    """How often a program without a name has each kind of instruction; else None."""
    if program.name not in ANONYMOUS:
        return None
    from tensorflow.compiler.xla.service import hlo_pb2

    module = hlo_pb2.HloModuleProto.FromString(program.hlo)
    return Counter(
        (each.opcode, each.metadata.op_type)
        for computation in module.computations
        for each in computation.instructions
    )


def cause(before: Program, after: Program) -> str:
    """Why `after` is not `before`, in a sentence or three.

    It never raises: a program must not fail for want of an explanation.
    """
    from ipufeed.executable.explanation.explain import explain_programs

    if before.key.digest == after.key.digest:
        return AGAIN
    try:
        return "; ".join(map(str, explain_programs(before, after)[:3]))
    except Exception as error:  # report it, and compile
        return f"that could not be determined ({type(error).__name__}: {error})"
