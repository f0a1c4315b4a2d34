"""Counts the work of a program over its instructions: operations and bytes.

    entry -> step, step, while -> body -> step ...   a step: an instruction not fused away

A loop's body counts once per iteration if XLA knows their number, which it does for
constant ones; else once, so that the figures are those of one iteration. A pipeline stage
is idle in some iterations of its IPU's loop: its name contains the number of the others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from ipufeed.executable.hlo.hlo import Computation, Instruction, Module
from ipufeed.executable.report.ipu_model import IpuModel
from ipufeed.executable.report.work import FREE, Work, step_work

# The names that ipufeed/parallel/pipeline/ipu_program.py gives to stages.
STAGE_ITERATIONS = re.compile(r"\b(\d+)_of_(\d+)_iterations")


@dataclass(frozen=True)
class Step:
    """An instruction that is executed separately.

    Attributes:
        instruction: The instruction.
        work: Work of one execution.
        executions: Executions per run of the program; within loops of an unknown count,
            per iteration of these.
        loop: The loops around it, from the outside, joined with " > "; "" for none.
    """

    instruction: Instruction = field(repr=False)
    work: Work
    executions: int
    loop: str


@dataclass(frozen=True)
class Loop:
    """A loop of a program.

    Attributes:
        name: The loop's name after those of the loops around it.
        trips: Iterations of one execution, or None if unknown.
        iteration: Work of one iteration.
    """

    name: str
    trips: int | None
    iteration: Work


@dataclass
class Cost:
    """The cost of a program.

    Attributes:
        total: Work of a run; loops of an unknown count are in it with one iteration.
        steps: The program's steps.
        loops: The program's loops, the outer ones first.
    """

    total: Work
    steps: list[Step] = field(repr=False)
    loops: list[Loop]


def cost_of(module: Module, model: IpuModel | None = None) -> Cost:
    """Returns the cost of a program, with cycles of a model (default: one Mk2 IPU)."""
    counter = _Counter(model or IpuModel())
    total = counter.computation(module.entry, 1, "")
    counter.loops.sort(key=lambda loop: loop.name.count(" > "))
    return Cost(total, counter.steps, counter.loops)


class _Counter:
    """Visits the computations that are executed."""

    def __init__(self, model: IpuModel) -> None:
        self.model = model
        self.steps: list[Step] = []
        self.loops: list[Loop] = []
        self.in_stage = False  # within a pipeline stage that is idle in some iterations

    def computation(self, one: Computation, executions: int, loop: str) -> Work:
        total = Work()
        for each in one.instructions:
            total += self.instruction(each, executions, loop)
        return total

    def instruction(self, one: Instruction, executions: int, loop: str) -> Work:
        if one.opcode in FREE:
            return Work()
        if one.opcode == "while":
            return self.loop(one, executions, loop)
        if one.opcode == "conditional":
            return self.conditional(one, executions, loop)
        if one.opcode in ("call", "async-start"):
            called = [self.computation(each, executions, loop) for each in one.called]
            return sum(called, Work())
        work = self.with_cycles(one, step_work(one))
        self.steps.append(Step(one, work, executions, loop))
        return work

    def with_cycles(self, one: Instruction, work: Work) -> Work:
        cycles = self.model.cycles(
            dtype=_dtype_of(one),
            matrix_flops=work.matrix_flops,
            vector_flops=work.vector_flops,
            transcendentals=work.transcendentals,
            moved_bytes=work.read_bytes,
            host_bytes=work.host_bytes,
        )
        return replace(work, cycles=cycles)

    def loop(self, one: Instruction, executions: int, outer: str) -> Work:
        trips = trip_count(one)
        own = one.op_name.rpartition("/")[2] or one.proto.name or "loop"
        name = f"{outer} > {own}" if outer else own
        each = executions * (1 if trips is None else trips)
        iteration = sum(
            (self.computation(called, each, name) for called in one.called), Work()
        )
        self.loops.append(Loop(name, trips, iteration))
        return iteration.times(1 if trips is None else trips)

    def conditional(self, one: Instruction, executions: int, loop: str) -> Work:
        """Counts the branch with the most cycles, as it is unknown which is taken."""
        # A condition inside a stage may have the stage's name, too.
        taken, iterations = (1, 1) if self.in_stage else _stage_iterations(one)
        executions = executions * taken // iterations
        was_in_stage, self.in_stage = self.in_stage, self.in_stage or iterations > 1
        best, steps = Work(), list(self.steps)
        chosen = steps
        for branch in one.called:
            self.steps = list(steps)
            work = self.computation(branch, executions, loop)
            if work.cycles >= best.cycles:
                best, chosen = work, self.steps
        self.steps, self.in_stage = chosen, was_in_stage
        return best.times(taken / iterations)


def _dtype_of(one: Instruction) -> str:
    """Returns the dtype in which a step computes."""
    for each in one.operands:
        if each.shape.dtype in ("f32", "f16", "bf16", "f64"):
            return each.shape.dtype
    return one.shape.dtype


def trip_count(one: Instruction) -> int | None:
    """Returns the number of a loop's iterations, or None if XLA does not know it."""
    try:
        config = json.loads(one.proto.backend_config or b"{}")
        return max(0, int(config["known_trip_count"]["n"]))
    except (ValueError, KeyError, TypeError):
        return None


def _stage_iterations(one: Instruction) -> tuple[int, int]:
    """Returns a stage's busy iterations and all iterations; (1, 1) if it is never idle."""
    found = STAGE_ITERATIONS.search(one.op_name)
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        return 1, 1
    return int(found[1]), int(found[2])
