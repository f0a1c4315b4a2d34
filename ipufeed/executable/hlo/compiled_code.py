"""Reads what XLA compiled: the optimised module, the buffer assignment, the code size.

TensorFlow has no Python class for the outer message, so its fields are read one by one.

Source: xla/service/cpu/executable.proto (CompilationResultProto), for the field numbers;
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ipufeed.executable.hlo.hlo import Message, Module

MODULE_WITH_CONFIG, BUFFERS, OBJECT_FILES = 1, 2, 8
MODULE = 1  # of HloModuleProtoWithConfig
CONTENTS = 1  # of ObjFileProto


@dataclass(frozen=True)
class CompiledCode:
    """A compiled program.

    Attributes:
        module: The module after XLA's optimisations.
        proto: The module, serialised.
        buffers: Its BufferAssignmentProto.
        code_bytes: Size of the object files.
    """

    module: Module
    proto: bytes = field(repr=False)
    buffers: Message = field(repr=False)
    code_bytes: int

    @classmethod
    def parse(cls, executable: bytes) -> CompiledCode:
        """Reads a serialised executable.

        Raises:
            ValueError: The bytes are not an executable.
        """
        from google.protobuf.message import DecodeError
        from tensorflow.compiler.xla.service import hlo_pb2

        with_config = _parts(executable, MODULE_WITH_CONFIG)
        assigned = _parts(executable, BUFFERS)
        modules = _parts(with_config[0], MODULE) if with_config else []
        if not modules or not assigned:
            raise ValueError("the executable has no module, or no buffers")
        proto = bytes(modules[0])
        try:
            buffers = hlo_pb2.BufferAssignmentProto.FromString(bytes(assigned[0]))
        except DecodeError as error:
            raise ValueError(f"its buffers cannot be read ({error})") from error
        code = sum(
            len(contents)
            for each in _parts(executable, OBJECT_FILES)
            for contents in _parts(each, CONTENTS)
        )
        return cls(Module.parse(proto), proto, buffers, code)


# Wire types of protobuf's encoding.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
SIZES = {FIXED64: 8, FIXED32: 4}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns a number, and the position after it.

    Raises:
        ValueError: The number is cut off or too long.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"the message is damaged at byte {at}")


def _fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields number and value of each field; bytes are not copied.

    Raises:
        ValueError: The bytes are not a whole message.
    """
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = _varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(view, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(view, at)
        elif kind in SIZES:
            size = SIZES[kind]
        else:
            raise ValueError(f"the message is damaged at byte {at}")
        if at + size > len(view):
            raise ValueError(f"the message ends within its field {number}")
        yield number, view[at : at + size]
        at += size


def _parts(data: bytes | memoryview, number: int) -> list[memoryview]:
    """Returns the values of a field of bytes, strings or messages; raises ValueError."""
    return [
        value
        for each, value in _fields(data)
        if each == number and isinstance(value, memoryview)
    ]
