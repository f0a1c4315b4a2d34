"""A lowered program as plain Python values: instructions, shapes, names, constants.

    HloModuleProto --Module.parse--> Module -> Computation -> Instruction

It holds only what reports and explanations need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Message = Any  # a protobuf message: TensorFlow ships no types of its classes
Array = npt.NDArray[Any]

TUPLE = 13  # of xla_data.proto
IN_PLACE = "ipufeed_in_place"  # of xla/compile/compiler.cc
BITS = {"pred": 8, "u2": 2, "s2": 2, "u4": 4, "s4": 4, "bf16": 16, "token": 0}


@dataclass(frozen=True)
class Shape:
    """The shape of an array or a tuple.

    Attributes:
        dtype: XLA's name of the element type, such as f32; or "tuple" or "token".
        dims: The dimensions of an array.
        parts: The shapes in a tuple.
    """

    dtype: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"

    @property
    def elements(self) -> int:
        """Number of elements of an array."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the array, or of all arrays in the tuple."""
        if self.dtype == "tuple":
            return sum(part.nbytes for part in self.parts)
        digits = "".join(filter(str.isdigit, self.dtype.split("e")[0]))
        bits = BITS.get(self.dtype, int(digits or 0))
        return (self.elements * bits + 7) // 8


@dataclass(frozen=True, eq=False)
class Instruction:
    """An instruction.

    Attributes:
        id: Number in the module.
        opcode: XLA's operation, such as "add".
        shape: Shape of the result.
        op_name: Name of the TensorFlow op that it was lowered from, or "".
        op_type: Type of that op, such as "AddV2", or "".
        source: "file:line" of that op in the user's code, or "".
        operands: The instructions whose results are its inputs.
        called: The computations that it calls.
        target: Target of a custom call, or "".
        parameter: Number of a parameter, or -1.
        proto: The HloInstructionProto.
    """

    id: int
    opcode: str
    shape: Shape
    op_name: str
    op_type: str
    source: str
    operands: list[Instruction] = field(repr=False)
    called: list[Computation] = field(repr=False)
    target: str
    parameter: int
    proto: Message = field(repr=False)

    @property
    def constant(self) -> Array | None:
        """Value of a constant; None for other instructions and types unknown to NumPy."""
        if self.opcode != "constant":
            return None
        return _literal(self.proto.literal)


@dataclass(eq=False)
class Computation:
    """A list of instructions, operands before their users.

    Attributes:
        id: Number in the module.
        name: XLA's name of the computation.
        instructions: Its instructions.
        root: The instruction whose result is the computation's.
    """

    id: int
    name: str
    instructions: list[Instruction] = field(default_factory=list, repr=False)
    root: Instruction | None = field(default=None, repr=False)


@dataclass(eq=False)
class Module:
    """A lowered program.

    Attributes:
        name: XLA's name of the program.
        computations: All computations, called ones before their callers.
        entry: The computation that a run executes.
        in_place: Numbers of the parameters, such as variables, whose new value would
            share their memory on an IPU. On this host it does so where it is computed
            after the last call, and has memory of its own elsewhere: a run that fails has
            changed nothing.
    """

    name: str
    computations: list[Computation] = field(repr=False)
    entry: Computation = field(repr=False)
    in_place: tuple[int, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Module:
        """Reads a serialised HloModuleProto.

        Raises:
            ValueError: The bytes are not one.
        """
        from google.protobuf.message import DecodeError
        from tensorflow.compiler.xla.service import hlo_pb2

        try:
            return cls.of(hlo_pb2.HloModuleProto.FromString(data))
        except (DecodeError, KeyError) as error:
            raise ValueError(f"it is not a program ({error})") from error

    @classmethod
    def of(cls, proto: Message) -> Module:
        """Reads an HloModuleProto."""
        computations = {
            each.id: Computation(each.id, each.name) for each in proto.computations
        }
        types = _dtype_names()
        for each in proto.computations:
            computation = computations[each.id]
            known: dict[int, Instruction] = {}
            for one in each.instructions:
                known[local_id(one.id)] = Instruction(
                    id=one.id,
                    opcode=one.opcode,
                    shape=_shape_of(one.shape, types),
                    op_name=one.metadata.op_name,
                    op_type=one.metadata.op_type,
                    source=_source_of(one.metadata),
                    operands=[known[local_id(n)] for n in one.operand_ids],
                    called=[computations[n] for n in one.called_computation_ids],
                    target=one.custom_call_target,
                    parameter=one.parameter_number if one.opcode == "parameter" else -1,
                    proto=one,
                )
            computation.instructions = list(known.values())
            computation.root = known.get(local_id(each.root_id))
        entry = computations[proto.entry_computation_id]
        in_place = proto.frontend_attributes.map.get(IN_PLACE, "")
        numbers = tuple(int(each) for each in in_place.split(",") if each)
        return cls(proto.name, list(computations.values()), entry, numbers)

    def instructions(self) -> Iterator[Instruction]:
        """Yields the instructions of all computations."""
        for computation in self.computations:
            yield from computation.instructions

    def calls(self, target: str) -> list[Instruction]:
        """Returns the custom calls with a target, in order."""
        return [each for each in self.instructions() if each.target == target]

    @property
    def parameters(self) -> list[Shape]:
        """Shapes of the parameters."""
        found = [each for each in self.entry.instructions if each.parameter >= 0]
        return [each.shape for each in sorted(found, key=lambda each: each.parameter)]

    @property
    def results(self) -> list[Shape]:
        """Shapes of the results."""
        root = self.entry.root
        if root is None:
            return []
        return list(root.shape.parts) if root.shape.dtype == "tuple" else [root.shape]


def opcodes(text: str) -> frozenset[str]:
    """Returns the opcodes in a text, separated by blanks."""
    return frozenset(text.split())


def _dtype_names() -> dict[int, str]:
    from tensorflow.compiler.xla import xla_data_pb2

    return {number: name.lower() for name, number in xla_data_pb2.PrimitiveType.items()}


def _shape_of(proto: Message, types: dict[int, str]) -> Shape:
    if proto.element_type == TUPLE:
        parts = tuple(_shape_of(part, types) for part in proto.tuple_shapes)
        return Shape("tuple", parts=parts)
    return Shape(types.get(proto.element_type, "?"), tuple(proto.dimensions))


OWN_SOURCE = "/tensorflow/python/"


def _source_of(metadata: Message) -> str:
    """Returns "file:line" of an op in the user's code; "" for lines of TensorFlow."""
    file = metadata.source_file
    if not file or file == "dummy_file_name" or OWN_SOURCE in file:
        return ""
    return f"{metadata.source_file}:{metadata.source_line}"


# Element type -> the field of a LiteralProto that has its values, and NumPy's type.
LITERALS: dict[str, tuple[str, npt.DTypeLike]] = {
    "pred": ("preds", np.bool_),
    "s8": ("s8s", np.int8),
    "u8": ("u8s", np.uint8),
    "s16": ("s16s", np.dtype("<i2")),
    "u16": ("u16s", np.dtype("<u2")),
    "s32": ("s32s", np.int32),
    "u32": ("u32s", np.uint32),
    "s64": ("s64s", np.int64),
    "u64": ("u64s", np.uint64),
    "f16": ("f16s", np.dtype("<f2")),
    "f32": ("f32s", np.float32),
    "f64": ("f64s", np.float64),
    "c64": ("c64s", np.complex64),
    "c128": ("c128s", np.complex128),
}


def _literal(proto: Message) -> Array | None:
    """Returns a LiteralProto's value; None for types that NumPy does not have."""
    shape = _shape_of(proto.shape, _dtype_names())
    if shape.dtype == "bf16":
        bits = np.frombuffer(proto.bf16s, np.dtype("<u2")).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape.dims)
    if shape.dtype not in LITERALS:
        return None
    name, dtype = LITERALS[shape.dtype]
    values = getattr(proto, name)
    if isinstance(values, bytes):
        array = np.frombuffer(values, dtype)
    elif shape.dtype in ("c64", "c128"):
        pairs = np.array(values).reshape(-1, 2)
        array = (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype)
    else:
        array = np.array(values, dtype)
    return array.reshape(shape.dims)


def local_id(number: int) -> int:
    """Returns an instruction's number in its computation.

    XLA sets the upper half to the computation's number, but not in all fields.
    """
    return number & 0xFFFFFFFF
