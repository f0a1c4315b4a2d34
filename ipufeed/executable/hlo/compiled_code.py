"""What XLA made of a program: the optimised module, where its buffers are, its code.

Source: xla/service/cpu/executable.proto (CompilationResultProto), whose numbers these are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipufeed.executable.hlo import protobuf_wire
from ipufeed.executable.hlo.hlo import Module

MODULE_WITH_CONFIG, BUFFERS, OBJECT_FILES = 1, 2, 8
MODULE = 1  # of HloModuleProtoWithConfig
CONTENTS = 1  # of ObjFileProto


@dataclass(frozen=True)
class CompiledCode:
    """A compiled program, to read.

    Attributes:
        module: After XLA's optimisations.
        proto: The same, serialised.
        buffers: Its BufferAssignmentProto.
        code_bytes: Of machine code, with what the linker needs.
    """

    module: Module
    proto: bytes = field(repr=False)
    buffers: Any = field(repr=False)
    code_bytes: int

    @classmethod
    def parse(cls, executable: bytes) -> CompiledCode:
        """Reads what XLA has serialised.

        Raises:
            ValueError: It is nothing of the kind.
        """
        from google.protobuf.message import DecodeError
        from tensorflow.compiler.xla.service import hlo_pb2

        with_config = protobuf_wire.parts(executable, MODULE_WITH_CONFIG)
        assigned = protobuf_wire.parts(executable, BUFFERS)
        modules = protobuf_wire.parts(with_config[0], MODULE) if with_config else []
        if not modules or not assigned:
            raise ValueError("the executable has no module, or no buffers")
        proto = bytes(modules[0])
        try:
            buffers = hlo_pb2.BufferAssignmentProto.FromString(bytes(assigned[0]))
        except DecodeError as error:
            raise ValueError(f"its buffers cannot be read ({error})") from error
        code = sum(
            len(contents)
            for each in protobuf_wire.parts(executable, OBJECT_FILES)
            for contents in protobuf_wire.parts(each, CONTENTS)
        )
        return cls(Module.parse(proto), proto, buffers, code)
