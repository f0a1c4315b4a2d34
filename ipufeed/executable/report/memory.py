"""The memory of a compiled program: its buffers and their purposes.

XLA assigns all buffers when it compiles, so that nothing is estimated. It is the memory on
this host, without what a real IPU needs for exchange and for its own code, and without the
memory of new values of variables, which an IPU writes in place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.hlo import (
    Computation,
    Instruction,
    Message,
    Module,
    local_id,
)

PURPOSES = (
    "parameters",
    "variables",
    "constants",
    "outputs",
    "feeds",
    "temporaries",
    "code",
    "remote",
)
FEED_CALLS = ("ipufeed_dequeue", "ipufeed_enqueue")
REMOTE_CALL = "ipufeed_remote"


@dataclass(frozen=True)
class Buffer:
    """A buffer of a running program.

    Attributes:
        name: Name of its largest value.
        purpose: One of PURPOSES.
        nbytes: Size in bytes.
        shape: Shape of its largest value, such as "f32[784,256]".
        source: "file:line" of the op that makes that value, or "".
        values: Number of values that use it, one after the other.
    """

    name: str
    purpose: str
    nbytes: int
    shape: str
    source: str
    values: int


@dataclass(frozen=True)
class Memory:
    """The memory of a program.

    Attributes:
        buffers: All buffers, the largest first.
        by_purpose: Bytes of each of PURPOSES; the sum is `total_bytes`.
        peak_bytes: Bytes of all buffers except remote ones, which are on the host. A
            buffer exists while the program runs; XLA shares it among values that are not
            alive at the same time.
        total_bytes: Bytes of all buffers and of the code.
    """

    buffers: tuple[Buffer, ...]
    by_purpose: dict[str, int]
    peak_bytes: int
    total_bytes: int


def memory_of(
    code: CompiledCode,
    arguments: tuple[str, ...],
    variables: frozenset[int],
    counts_code: bool = True,
) -> Memory:
    """Returns the memory of a program.

    Args:
        code: The program.
        arguments: Names of the parameters.
        variables: Numbers of the parameters that are variables.
        counts_code: Whether to count the code. Default: True.
    """
    made_by = {
        logical.id: _definition(code, logical)
        for logical in code.buffers.logical_buffers
    }
    remote = _remote_parameters(code.module)
    found: list[Buffer] = []
    for allocation in code.buffers.buffer_allocations:
        found += _buffers_of(allocation, made_by, arguments, variables, remote)
    found = _without_new_values(found, code)
    peak = sum(each.nbytes for each in found if each.purpose != "remote")
    by_purpose = dict.fromkeys(PURPOSES, 0)
    for each in found:
        by_purpose[each.purpose] += each.nbytes
    by_purpose["code"] = code.code_bytes if counts_code else 0
    found.sort(key=lambda each: (-each.nbytes, each.name))
    total = sum(by_purpose.values())
    return Memory(tuple(found), by_purpose, peak, total)


def _without_new_values(found: list[Buffer], code: CompiledCode) -> list[Buffer]:
    """Returns the buffers without an output for each parameter that is written in place.

    This host has memory of its own for some of these outputs: hlo.Module.in_place.
    """
    sizes = Counter(
        allocation.size
        for allocation in code.buffers.buffer_allocations
        if allocation.is_entry_computation_parameter
        and not allocation.maybe_live_out
        and allocation.parameter_number in code.module.in_place
    )
    kept = []
    for each in found:
        if each.purpose == "outputs" and sizes[each.nbytes] > 0:
            sizes[each.nbytes] -= 1
        else:
            kept.append(each)
    return kept


def _remote_parameters(module: Module) -> set[int]:
    """Returns the parameters that the program itself transfers to the IPU."""
    callers: dict[int, Instruction] = {}
    homes: dict[int, Computation] = {}
    for computation in module.computations:
        for one in computation.instructions:
            homes[id(one)] = computation
            for called in one.called:
                callers[id(called)] = one
    found = set()
    for one in module.calls(REMOTE_CALL):
        number = _parameter_behind(one.operands[0], module, callers, homes)
        if number is not None:
            found.add(number)
    return found


def _parameter_behind(
    value: Instruction,
    module: Module,
    callers: dict[int, Instruction],
    homes: dict[int, Computation],
) -> int | None:
    """Returns the number of the program's parameter that a value is, also within loops."""
    path: list[int] = []  # places in tuples, the outermost last
    while True:
        if value.opcode == "get-tuple-element":
            path.append(value.proto.tuple_index)
            value = value.operands[0]
        elif value.opcode == "tuple" and path:
            value = value.operands[path.pop()]
        elif value.opcode in ("copy", "bitcast"):
            value = value.operands[0]
        elif value.opcode == "parameter":
            home = homes[id(value)]
            if home is module.entry:
                return None if path else value.parameter
            caller = callers[id(home)]
            if caller.opcode == "conditional":
                value = caller.operands[1 + caller.called.index(home)]
            else:
                value = caller.operands[value.parameter]
        else:
            return None


def _definition(code: CompiledCode, logical: Message) -> Instruction | None:
    """Returns the instruction that makes a value."""
    wanted = logical.defined_at.instruction_id
    computation, local = wanted >> 32, local_id(wanted)
    for each in code.module.computations:
        if computation and local_id(each.id) != computation:
            continue
        for one in each.instructions:
            if one.id == wanted or (computation and local_id(one.id) == local):
                return one
    return None


def _buffers_of(
    allocation: Message,
    made_by: dict[int, Instruction | None],
    arguments: tuple[str, ...],
    variables: frozenset[int],
    remote: set[int],
) -> list[Buffer]:
    """Returns an allocation's buffers: temporaries and feeds are in one allocation."""
    assigned = sorted(allocation.assigned, key=lambda each: -each.size)
    makers = [made_by.get(each.logical_buffer_id) for each in assigned]
    largest = next((one for one in makers if one is not None), None)
    shape = str(largest.shape) if largest is not None else ""
    source = largest.source if largest is not None else ""
    name = _name_of(largest)
    values = len(assigned)
    if allocation.is_entry_computation_parameter:
        number = allocation.parameter_number
        name = arguments[number] if number < len(arguments) else f"parameter {number}"
        purpose = "variables" if number in variables else "parameters"
        if number in remote:
            purpose = "remote"
        return [Buffer(name, purpose, allocation.size, shape, source, values)]
    if allocation.is_constant:
        return [Buffer(name, "constants", allocation.size, shape, source, values)]
    if allocation.maybe_live_out:
        return [Buffer(name, "outputs", allocation.size, shape, source, values)]
    feeds = [
        (each, one)
        for each, one in zip(assigned, makers, strict=True)
        if one is not None and one.target in FEED_CALLS
    ]
    taken = _covered([(each.offset, each.offset + each.size) for each, _ in feeds])
    found = []
    if taken:
        feed = feeds[0][1]
        found.append(
            Buffer(
                _name_of(feed), "feeds", taken, str(feed.shape), feed.source, len(feeds)
            )
        )
    rest = allocation.size - taken
    if rest > 0:
        others = values - len(feeds)
        found.append(Buffer(name, "temporaries", rest, shape, source, others))
    return found


def _name_of(one: Instruction | None) -> str:
    """Returns the most telling name of a value."""
    if one is None:
        return "unnamed"
    return one.op_name or one.target or one.proto.name or one.opcode


def _covered(ranges: list[tuple[int, int]]) -> int:
    total, end = 0, 0
    for start, stop in sorted(ranges):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
