"""Counts the work of one instruction: operations and bytes.

Flops and bytes are counted, not measured: a product of [m, k] and [k, n] is 2 m n k flops,
an element-wise instruction one flop per element (transcendental ones are counted
separately), a reduction one per element of its input. Bytes are those of operands and
results. An IpuModel estimates cycles from both.

Source: the counting rules of XLA's HloCostAnalysis, which counts only valid positions of a
convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ipufeed.executable.hlo.hlo import Computation, Instruction, Message, opcodes

TRANSCENDENTAL = opcodes(
    "acos acosh asin asinh atan2 atanh cbrt cosine cosh erf exponential "
    "exponential-minus-one log log-plus-one logistic power rsqrt sine sinh sqrt "
    "tan tanh"
)
ELEMENTWISE = opcodes(
    "abs add and ceil clamp compare convert divide floor is-finite maximum minimum "
    "multiply negate not or popcnt remainder round-nearest-afz round-nearest-even "
    "select shift-left shift-right-arithmetic shift-right-logical sign subtract "
    "xor stochastic-convert map"
)
# Instructions without work: names for values, or memory that exists anyway.
FREE = opcodes(
    "after-all add-dependency bitcast constant domain get-tuple-element "
    "opt-barrier parameter partition-id replica-id tuple"
)


@dataclass(frozen=True)
class Work:
    """Work of an instruction: numbers of operations, bytes and cycles.

    Attributes:
        matrix_flops: Flops of products and convolutions.
        vector_flops: Flops of element-wise work and reductions.
        transcendentals: Elements of exp, log and the like.
        read_bytes: Bytes of operands.
        written_bytes: Bytes of results.
        host_bytes: Bytes that feeds transfer to or from the host.
        cycles: Estimated cycles.
    """

    matrix_flops: float = 0.0
    vector_flops: float = 0.0
    transcendentals: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    host_bytes: float = 0.0
    cycles: float = 0.0

    @property
    def flops(self) -> float:
        """Flops of both kinds."""
        return self.matrix_flops + self.vector_flops

    @property
    def moved_bytes(self) -> float:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    def __add__(self, other: Work) -> Work:
        mine, its = vars(self), vars(other)
        return Work(**{name: mine[name] + its[name] for name in mine})

    def times(self, factor: float) -> Work:
        """Returns the work multiplied by a factor."""
        return Work(**{name: value * factor for name, value in vars(self).items()})


def step_work(one: Instruction) -> Work:
    """Returns the work of an instruction, without cycles."""
    work = _compute(one)
    if one.opcode == "custom-call":
        sent = one.shape.nbytes + _operand_bytes(one.operands)
        if one.target.startswith("ipufeed_"):
            return replace(work, host_bytes=float(sent))
    read, written = _traffic(one)
    return replace(work, read_bytes=float(read), written_bytes=float(written))


def _operand_bytes(operands: Iterable[Instruction]) -> int:
    return sum(each.shape.nbytes for each in operands)


def _compute(one: Instruction) -> Work:
    """Counts the operations of an instruction and of those fused into it."""
    elements = one.shape.elements if one.shape.dtype != "tuple" else 0
    match one.opcode:
        case "fusion":
            inner = (
                _compute(each) for called in one.called for each in called.instructions
            )
            return sum(inner, Work())
        case "dot":
            return Work(matrix_flops=2.0 * elements * _contracted(one))
        case "convolution":
            return Work(matrix_flops=_convolution_flops(one))
        case "reduce" | "all-reduce":
            count = len(one.operands) // 2 or 1
            taken = sum(each.shape.elements for each in one.operands[:count])
            given = sum(part.elements for part in one.shape.parts) or elements
            return Work(vector_flops=float(max(0, taken - given)))
        case "reduce-window":
            return Work(vector_flops=float(elements * max(0, _window_size(one) - 1)))
        case "select-and-scatter":
            source = one.operands[1].shape.elements if len(one.operands) > 1 else 0
            return Work(vector_flops=float(source * _window_size(one)))
        case "scatter":
            updates = one.operands[-1].shape.elements if one.operands else 0
            return Work(vector_flops=float(updates))
    if one.opcode in TRANSCENDENTAL:
        return Work(transcendentals=float(elements))
    if one.opcode in ELEMENTWISE:
        return Work(vector_flops=float(elements))
    return Work()


def _contracted(one: Instruction) -> int:
    """Returns the size of the dimensions that a product sums over."""
    dims = one.operands[0].shape.dims
    over = one.proto.dot_dimension_numbers.lhs_contracting_dimensions
    return math.prod(dims[each] for each in over)


def _window_size(one: Instruction) -> int:
    return math.prod(each.size for each in one.proto.window.dimensions)


def _convolution_flops(one: Instruction) -> float:
    """Counts two flops per product of an input and a weight, without padding."""
    numbers = one.proto.convolution_dimension_numbers
    image, kernel = one.operands[0].shape.dims, one.operands[1].shape.dims
    positions = 1
    for axis, window in enumerate(one.proto.window.dimensions):
        positions *= _valid_positions(
            window,
            image[numbers.input_spatial_dimensions[axis]],
            one.shape.dims[numbers.output_spatial_dimensions[axis]],
        )
    features = kernel[numbers.kernel_input_feature_dimension]
    batch = one.shape.dims[numbers.output_batch_dimension]
    outputs = one.shape.dims[numbers.output_feature_dimension]
    return float(2 * positions * features * batch * outputs)


def _valid_positions(window: Message, inputs: int, outputs: int) -> int:
    """Counts pairs of an output and a window position that lie on an input element."""
    base = max(1, window.base_dilation)
    dilated = (inputs - 1) * base + 1 if inputs else 0
    count = 0
    for place in range(window.size):
        start = place * max(1, window.window_dilation) - window.padding_low
        if base == 1:
            # Outputs o with 0 <= start + o * stride < inputs.
            stride = max(1, window.stride)
            first = max(0, -(start // stride))
            last = min(outputs - 1, (inputs - 1 - start) // stride)
            count += max(0, last - first + 1)
            continue
        for output in range(outputs):
            at = start + output * max(1, window.stride)
            count += 0 <= at < dilated and at % base == 0
    return count


def _traffic(one: Instruction) -> tuple[int, int]:
    """Counts bytes read and written; a slice of a larger array counts as the slice."""
    result = one.shape.nbytes
    match one.opcode:
        case "dynamic-slice" | "slice" | "gather":
            return result, result
        case "dynamic-update-slice":
            update = one.operands[1].shape.nbytes
            return update, update
        case "fusion" if one.called:
            return _fused_traffic(one, one.called[0])
    return _operand_bytes(one.operands), result


def _fused_traffic(one: Instruction, fused: Computation) -> tuple[int, int]:
    """Counts a fusion's bytes; operands that it only slices count as the slices."""
    users: dict[int, list[Instruction]] = {}
    for each in fused.instructions:
        for operand in each.operands:
            users.setdefault(operand.id, []).append(each)
    read = 0
    for each in fused.instructions:
        if each.parameter < 0:
            continue
        using = users.get(each.id, [])
        parts = [_sliced_bytes(each, user) for user in using]
        whole = any(part is None for part in parts)
        read += each.shape.nbytes if whole else sum(part or 0 for part in parts)
    root = fused.root
    if root is not None and root.opcode == "dynamic-update-slice":
        return read, root.operands[1].shape.nbytes
    return read, one.shape.nbytes


def _sliced_bytes(operand: Instruction, user: Instruction) -> int | None:
    """Returns the bytes that an instruction needs of an operand; None for all."""
    if user.opcode in ("dynamic-slice", "slice", "gather"):
        if user.operands[0] is operand:
            return user.shape.nbytes
    elif user.opcode == "dynamic-update-slice" and user.operands[0] is operand:
        return 0
    return None
