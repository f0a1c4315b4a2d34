"""A report's data on a program, ready for JSON: its memory and its cost."""

from __future__ import annotations

import dataclasses
from typing import Any

from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.hlo import Instruction, Module
from ipufeed.executable.report import cost, memory
from ipufeed.executable.report.ipu_model import IpuModel
from ipufeed.executable.report.limits import Limits
from ipufeed.executable.report.work import Work

VERSION = 1
MOST_BUFFERS = 200
MOST_STEPS = 500
COUNTED = (
    "Flops and bytes are counted over the compiled program. A loop whose count is not "
    "known when it is compiled counts with one iteration."
)
ESTIMATED = (
    "An estimate, not a measurement: a lower bound on the modelled IPU, as if every tile "
    "had its part of each step and none waited for another."
)


def profile_of(
    code: CompiledCode,
    arguments: tuple[str, ...],
    variables: frozenset[int],
    limits: Limits,
) -> dict[str, Any]:
    """The profile of a compiled program.

    Args:
        code: The program.
        arguments: Names of its parameters.
        variables: The numbers of those that are variables.
        limits: The IPUs that it is compiled for; cycles are estimated for one of them.
    """
    return {
        "version": VERSION,
        "memory": memory_of(code, arguments, variables, limits),
        "cost": cost_of(code.module, limits.model),
        "ipu_model": dataclasses.asdict(limits.model),
    }


def memory_of(
    code: CompiledCode,
    arguments: tuple[str, ...],
    variables: frozenset[int],
    limits: Limits,
) -> dict[str, Any]:
    """The memory, ready for JSON."""
    found = memory.memory_of(code, arguments, variables, limits.counts_code)
    return {
        "available_bytes": limits.bytes,
        "total_bytes": found.total_bytes,
        "peak_bytes": found.peak_bytes,
        "by_purpose": found.by_purpose,
        "number_of_buffers": len(found.buffers),
        "buffers": [dataclasses.asdict(each) for each in found.buffers[:MOST_BUFFERS]],
    }


def cost_of(module: Module, model: IpuModel) -> dict[str, Any]:
    """The cost, ready for JSON; the steps with the most estimated cycles first."""
    found = cost.cost_of(module, model)
    steps = sorted(found.steps, key=lambda each: -each.work.cycles * each.executions)
    return {
        "counted": COUNTED,
        "estimated": ESTIMATED,
        "run": work_of(found.total, model),
        "loops": [
            {
                "name": each.name,
                "trips": each.trips,
                "iteration": work_of(each.iteration, model),
            }
            for each in found.loops
        ],
        "number_of_steps": len(steps),
        "steps": [step_of(each, model) for each in steps[:MOST_STEPS]],
    }


def work_of(work: Work, model: IpuModel) -> dict[str, Any]:
    """Work, ready for JSON."""
    return {
        "flops": work.flops,
        "matrix_flops": work.matrix_flops,
        "transcendentals": work.transcendentals,
        "bytes": work.moved_bytes,
        "host_bytes": work.host_bytes,
        "estimated_cycles": round(work.cycles, 1),
        "estimated_seconds": work.cycles / model.clock_hz,
    }


def step_of(step: cost.Step, model: IpuModel) -> dict[str, Any]:
    """A step, ready for JSON; its work is that of one execution."""
    one = step.instruction
    return {
        "name": one.proto.name,
        "opcode": kind_of(one),
        "op_name": one.op_name,
        "source": memory.own_source(one),
        "shape": str(one.shape),
        "executions": step.executions,
        "loop": step.loop,
        **work_of(step.work, model),
    }


def kind_of(one: Instruction) -> str:
    """What an instruction is, a word or two: of a fusion, what counts in it."""
    if one.target:
        return one.target
    if one.opcode == "fusion" and one.called:
        inside = {each.opcode for each in one.called[0].instructions}
        for telling in ("convolution", "dot", "scatter", "reduce", "reduce-window"):
            if telling in inside:
                return f"fusion ({telling})"
    return one.opcode
