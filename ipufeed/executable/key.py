"""The key of a program: 64 bits that say whether it has been compiled before.

    HLO  --canonical()-->  bytes without names, ids and source lines  --+
    target, configuration, flags, versions  --surroundings()--> JSON  --+--> blake2b

What a program computes and what it is compiled for are in the key; what it is called, how
many functions were traced before it, which queue objects it uses, which IPU of several it
runs on and where its source lines stand are not.

Source: what is hashed follows graphcore/tensorflow's executable cache.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """What identifies a compiled program.

    Attributes:
        number: 64 bits, the name of its file.
        digest: 256 bits of the same in hex, which the file holds: two programs of the
            same number would be told from each other.
    """

    number: int
    digest: str

    @property
    def hex(self) -> str:
        """The number as files are named: lower case, without leading zeros."""
        return f"{self.number:x}"


def program_key(hlo: bytes, surroundings: dict[str, Any]) -> Key:
    """The key of a serialised HloModuleProto that is compiled in these surroundings."""
    digest = hashlib.blake2b(canonical(hlo), digest_size=32)
    digest.update(json.dumps(surroundings, sort_keys=True).encode())
    text = digest.hexdigest()
    # 0 stands for no program.
    return Key(int(text[:16], 16) or 1, text)


def canonical(hlo: bytes) -> bytes:
    """What a program computes, in bytes that are the same wherever it was traced.

    Computations and instructions are numbered in their order, which is that of the
    computation; names and what only people read is dropped. The order of map fields,
    which differs between processes, is fixed by the serialisation.
    """
    from tensorflow.compiler.xla.service import hlo_pb2

    module = hlo_pb2.HloModuleProto.FromString(hlo)
    module.name = "m"
    module.id = 0
    module.entry_computation_name = ""
    module.ClearField("stack_frame_index")
    del module.host_program_shape.parameter_names[:]
    computations = {each.id: n for n, each in enumerate(module.computations)}
    module.entry_computation_id = computations[module.entry_computation_id]
    for computation in module.computations:
        instructions = {
            local_id(each.id): n for n, each in enumerate(computation.instructions)
        }
        computation.id = computations[computation.id]
        computation.name = ""
        computation.root_id = instructions[local_id(computation.root_id)]
        computation.ClearField("execution_thread")
        del computation.program_shape.parameter_names[:]
        for n, instruction in enumerate(computation.instructions):
            instruction.ClearField("metadata")
            instruction.name = ""
            instruction.id = n
            for ids in (instruction.operand_ids, instruction.control_predecessor_ids):
                ids[:] = [instructions[local_id(each)] for each in ids]
            called = instruction.called_computation_ids
            called[:] = [computations[each] for each in called]
    result: bytes = module.SerializeToString(deterministic=True)
    return result


def local_id(number: int) -> int:
    """An instruction's number in its computation.

    XLA writes that of the computation into the upper half, but not everywhere.
    """
    return number & 0xFFFFFFFF
