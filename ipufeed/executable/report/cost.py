"""What a program has to compute and to move, counted over its instructions.

    entry -> step, step, while -> body -> step ...      a step is what is not fused away

A loop's body counts as often as it is known to run. XLA knows that of loops with a
constant count; the others count once, so that the figures are those of one iteration. A
stage of a pipeline has no mini-batch in some iterations of its IPU's loop: its name has in
how many it has.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from ipufeed.executable.hlo.hlo import Computation, Instruction, Module
from ipufeed.executable.report.ipu_model import IpuModel
from ipufeed.executable.report.work import FREE, Work, step_work

# As ipufeed/parallel/pipeline/ipu_program.py names what a stage does.
STAGE_ITERATIONS = re.compile(r"\b(\d+)_of_(\d+)_iterations")


@dataclass(frozen=True)
class Step:
    """An instruction that is executed by itself.

    Attributes:
        instruction: It.
        work: Of one execution.
        executions: In a run of the program; within loops of an unknown count, in one
            iteration of these.
        loop: The loops that it is in, from the outside, joined with " > "; "" for none.
    """

    instruction: Instruction = field(repr=False)
    work: Work
    executions: int
    loop: str


@dataclass(frozen=True)
class Loop:
    """A loop of the program.

    Attributes:
        name: With the loops that it is in.
        trips: How often its body runs each time, or None if that is not known.
        iteration: The work of one iteration.
    """

    name: str
    trips: int | None
    iteration: Work


@dataclass
class Cost:
    """Of a program.

    Attributes:
        total: Of a run; loops of an unknown count are in it with one iteration.
        steps: All.
        loops: All, the outer ones first.
    """

    total: Work
    steps: list[Step] = field(repr=False)
    loops: list[Loop]


def cost_of(module: Module, model: IpuModel | None = None) -> Cost:
    """Counts a program, with the cycles of a model (default: one Mk2 IPU)."""
    counter = _Counter(model or IpuModel())
    total = counter.computation(module.entry, 1, "")
    counter.loops.sort(key=lambda loop: loop.name.count(" > "))
    return Cost(total, counter.steps, counter.loops)


class _Counter:
    """Walks the computations that are executed."""

    def __init__(self, model: IpuModel) -> None:
        self.model = model
        self.steps: list[Step] = []
        self.loops: list[Loop] = []
        self.in_stage = False  # of a pipeline that is idle in some iterations

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
            dtype=dtype_of(one),
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
        """One branch is taken: the one with most to do, as it is unknown which."""
        # A condition inside a stage may bear the stage's name, too.
        taken, iterations = (1, 1) if self.in_stage else stage_iterations(one)
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


def dtype_of(one: Instruction) -> str:
    """The dtype that a step computes in."""
    for each in one.operands:
        if each.shape.dtype in ("f32", "f16", "bf16", "f64"):
            return each.shape.dtype
    return one.shape.dtype


def trip_count(one: Instruction) -> int | None:
    """How often a loop's body runs, if XLA has found out."""
    try:
        config = json.loads(one.proto.backend_config or b"{}")
        return max(0, int(config["known_trip_count"]["n"]))
    except (ValueError, KeyError, TypeError):
        return None


def stage_iterations(one: Instruction) -> tuple[int, int]:
    """In how many iterations a stage has a mini-batch, and of how many; (1, 1) if all."""
    found = STAGE_ITERATIONS.search(one.op_name)
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        return 1, 1
    return int(found[1]), int(found[2])
