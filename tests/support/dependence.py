"""The order of a compiled program's calls, as its data flow has it.

    with compiled_modules() as modules:
        run a program                      modules: what was lowered, what was compiled
    check_chained(modules[0])

A call is in order with the next one when the next one needs its result. What holds calls
(a loop, a conditional, a called function) is checked as one step of the computation
around it, and then inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ipufeed.executable.compile import programs
from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.hlo import Computation, Instruction, Module

# An assertion holds back the calls after it.
QUEUE_CALLS = ("ipufeed_dequeue", "ipufeed_enqueue", "ipufeed_assert")


@contextmanager
def compiled_programs() -> Iterator[list[CompiledCode]]:
    """Collects each program that is compiled in it."""
    found: list[CompiledCode] = []
    compiled = programs.compiled

    def note(work: Any, figures: Any, executable: bytes) -> None:
        found.append(CompiledCode.parse(executable))
        compiled(work, figures, executable)

    with mock.patch.object(programs, "compiled", note):
        yield found


@contextmanager
def compiled_modules() -> Iterator[list[Module]]:
    """Collects each program that is compiled in it: as lowered, and as optimised."""
    found: list[Module] = []
    begin, compiled = programs.begin, programs.compiled

    def note_lowered(lowered: Any) -> Any:
        found.append(Module.parse(lowered.hlo))
        return begin(lowered)

    def note_compiled(work: Any, figures: Any, executable: bytes) -> None:
        found.append(CompiledCode.parse(executable).module)
        compiled(work, figures, executable)

    with (
        mock.patch.object(programs, "begin", note_lowered),
        mock.patch.object(programs, "compiled", note_compiled),
    ):
        yield found


def holds_calls(computation: Computation) -> bool:
    """Whether it, or one that it calls, has a call of a queue."""
    return any(map(is_step, computation.instructions))


def is_step(instruction: Instruction) -> bool:
    """Whether it is a call of a queue, or holds one."""
    return instruction.target in QUEUE_CALLS or any(
        map(holds_calls, instruction.called)
    )


def needs(instruction: Instruction) -> set[Instruction]:
    """All whose results it needs, itself included."""
    found: set[Instruction] = set()
    left = [instruction]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += each.operands
    return found


def check_chained(module: Module) -> int:
    """Fails unless each call of a queue needs the one before it; gives their number."""
    return _check(module.entry, "entry")


def _check(computation: Computation, role: str) -> int:
    where = f"computation {computation.name} ({role})"
    steps = [each for each in computation.instructions if is_step(each)]
    # Operands stand before what needs them: in this order, if there is one.
    for before, after in itertools.pairwise(steps):
        assert before in needs(after), f"{where}: {after} does not need {before}"
    if steps and role != "entry":
        first = needs(steps[0])
        assert any(each.parameter >= 0 for each in first), f"{where}: {steps[0]}"
    if steps and role == "body":
        assert computation.root is not None
        assert steps[-1] in needs(computation.root), f"{where}: {steps[-1]}"
    calls = sum(each.target in QUEUE_CALLS for each in steps)
    for step in steps:
        for place, called in enumerate(step.called):
            is_condition = step.opcode == "while" and place == 1
            calls += _check(called, "condition" if is_condition else "body")
    return calls
