"""History of this process's programs, and a warning when one is compiled too often."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from ipufeed.checks import is_power_of_two
from ipufeed.device.log import LOGGER
from ipufeed.executable.program.names import ANONYMOUS
from ipufeed.executable.program.program import Program

# Recompilations before the first warning: one or two may be intended.
WARN_AT = 3
# Fraction of ops that two programs have in common if they are versions of one program:
# without a name, and of the same name, which functions of several tests or models may have.
ALIKE = 0.8
NAMED_ALIKE = 0.5

AGAIN = (
    "the program is the same, but was freed in between: keep the function or session, "
    "or set --executable_cache_path in TF_POPLAR_FLAGS"
)


Ops = Counter[tuple[str, str]]


@dataclass
class _Known:
    """A program, the family of versions that it belongs to, and its ops."""

    program: Program
    family: int
    ops: Ops


class History:
    """The programs that this process has compiled, or read from the cache. Threads: any.

    Programs of the same name that are alike are versions of one program. At most
    `MAX_BYTES` of programs are kept; of older ones only the number.
    """

    MAX_BYTES = 256 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[_Known] = []
        self._compiles: Counter[int] = Counter()
        self._names: dict[str, int] = {}
        self._families = 0

    def add(self, program: Program, *, compiled: bool) -> None:
        """Records a program, and warns if it has been compiled too often."""
        ops = _ops_of(program)
        with self._lock:
            last = self._relative(program, ops)
            family = self._family(program, last)
            self._known.append(_Known(program, family, ops))
            total = sum(len(each.program.hlo) for each in self._known)
            while total > self.MAX_BYTES and len(self._known) > 1:
                total -= len(self._known.pop(0).program.hlo)
            if not compiled:
                return
            recompiles = self._compiles[family]  # the first compilation does not count
            self._compiles[family] += 1
        # At powers of two: warnings become rarer.
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
        """Returns the last version of a program, or the last other one of its name.

        None if there is neither.
        """
        ops = _ops_of(program)
        with self._lock:
            known = self._relative(program, ops) or self._namesake(program)
        return None if known is None else known.program

    def programs(self) -> list[Program]:
        """Returns the programs that are kept, the oldest first."""
        with self._lock:
            return [each.program for each in self._known]

    def _relative(self, program: Program, ops: Ops) -> _Known | None:
        share = ALIKE if program.name in ANONYMOUS else NAMED_ALIKE
        for each in reversed(self._known):
            if each.program.name == program.name and _common(each.ops, ops) >= share:
                return each
        return None

    def _namesake(self, program: Program) -> _Known | None:
        named = (each for each in reversed(self._known) if _is_namesake(each, program))
        return next(named, None)

    def _family(self, program: Program, last: _Known | None) -> int:
        if last is not None:
            return last.family
        named = program.name not in ANONYMOUS
        if named and program.name in self._names and self._namesake(program) is None:
            return self._names[program.name]  # dropped to save memory
        self._families += 1
        if named:
            self._names[program.name] = self._families
        return self._families


def _is_namesake(known: _Known, program: Program) -> bool:
    return program.name not in ANONYMOUS and known.program.name == program.name


def _common(one: Ops, other: Ops) -> float:
    """Returns the fraction of ops that two programs have in common."""
    return (one & other).total() / max(one.total(), other.total(), 1)


def _ops_of(program: Program) -> Ops:
    """Counts the kinds of instructions of a program."""
    from tensorflow.compiler.xla.service import hlo_pb2

    module = hlo_pb2.HloModuleProto.FromString(program.hlo)
    return Counter(
        (each.opcode, each.metadata.op_type)
        for computation in module.computations
        for each in computation.instructions
    )


def cause(before: Program, after: Program) -> str:
    """Returns up to three sentences on why `after` differs from `before`.

    It never raises: a failing explanation must not fail the program.
    """
    from ipufeed.executable.explanation.explain import explain_programs

    if before.key.digest == after.key.digest:
        return AGAIN
    try:
        return "; ".join(map(str, explain_programs(before, after)[:3]))
    except Exception as error:  # report it, and compile
        return f"that could not be determined ({type(error).__name__}: {error})"
