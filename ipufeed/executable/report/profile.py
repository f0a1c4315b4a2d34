"""The profile of a program in a report, ready for JSON: its memory and its cost."""

from __future__ import annotations

import dataclasses

from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.hlo import Instruction, Module
from ipufeed.executable.program.file_format import JsonObject
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
) -> JsonObject:
    """Returns the profile of a compiled program.

    Args:
        code: The program.
        arguments: Names of the parameters.
        variables: Numbers of the parameters that are variables.
        limits: The IPUs that it is compiled for; cycles are estimated for one of them.
    """
    return {
        "version": VERSION,
        "memory": _memory_of(code, arguments, variables, limits),
        "cost": _cost_of(code.module, limits.model),
        "ipu_model": dataclasses.asdict(limits.model),
    }


def _memory_of(
    code: CompiledCode,
    arguments: tuple[str, ...],
    variables: frozenset[int],
    limits: Limits,
) -> JsonObject:
    found = memory.memory_of(code, arguments, variables, limits.counts_code)
    return {
        "available_bytes": limits.bytes,
        "total_bytes": found.total_bytes,
        "peak_bytes": found.peak_bytes,
        "tile": {
            "available_bytes": limits.model.tile_bytes,
            "mean_bytes": -(
                -limits.needed(found) // (limits.ipus * limits.model.tiles)
            ),
        },
        "by_purpose": found.by_purpose,
        "number_of_buffers": len(found.buffers),
        "buffers": [dataclasses.asdict(each) for each in found.buffers[:MOST_BUFFERS]],
    }


def _cost_of(module: Module, model: IpuModel) -> JsonObject:
    """Returns the cost, with the steps of the most estimated cycles first."""
    found = cost.cost_of(module, model)
    steps = sorted(found.steps, key=lambda each: -each.work.cycles * each.executions)
    return {
        "counted": COUNTED,
        "estimated": ESTIMATED,
        "run": _work_of(found.total, model),
        "loops": [
            {
                "name": each.name,
                "trips": each.trips,
                "iteration": _work_of(each.iteration, model),
            }
            for each in found.loops
        ],
        "number_of_steps": len(steps),
        "steps": [_step_of(each, model) for each in steps[:MOST_STEPS]],
    }


def _work_of(work: Work, model: IpuModel) -> JsonObject:
    return {
        "flops": work.flops,
        "matrix_flops": work.matrix_flops,
        "transcendentals": work.transcendentals,
        "bytes": work.moved_bytes,
        "host_bytes": work.host_bytes,
        "estimated_cycles": round(work.cycles, 1),
        "estimated_seconds": work.cycles / model.clock_hz,
    }


def _step_of(step: cost.Step, model: IpuModel) -> JsonObject:
    """Returns a step with the work of one execution."""
    one = step.instruction
    return {
        "name": one.proto.name,
        "opcode": kind_of(one),
        "op_name": one.op_name,
        "source": one.source,
        "shape": str(one.shape),
        "executions": step.executions,
        "loop": step.loop,
        **_work_of(step.work, model),
    }


def kind_of(one: Instruction) -> str:
    """Returns the opcode or target; for a fusion, with its main instruction."""
    if one.target:
        return one.target
    if one.opcode == "fusion" and one.called:
        inside = {each.opcode for each in one.called[0].instructions}
        for main in ("convolution", "dot", "scatter", "reduce", "reduce-window"):
            if main in inside:
                return f"fusion ({main})"
    return one.opcode
