"""The key of a program: 64 bits by which it is found if it was compiled before.

    HLO  --canonical()-->  bytes without names, ids and source lines  --+
    target, configuration, flags, versions  --surroundings()--> JSON  --+--> blake2b

What a program computes and what it is compiled for are in the key; what it is called, how
many functions were traced before it, which queue objects it uses, which IPU of several it
runs on and where its source lines stand are not.

Source: what is hashed follows graphcore/tensorflow's executable cache.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ipufeed import _native


@dataclass(frozen=True)
class Key:
    """What identifies a compiled program.

    Attributes:
        number: 64 bits, the name of its file.
        digest: 256 bits of the same in hex, which the file holds: two programs of the
            same number would be distinguished.
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


TAKE_BYTES = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int64
)


def canonical(hlo: bytes) -> bytes:
    """What a program computes, in bytes that are the same wherever it was traced.

    Instructions are numbered in the order in which the results need them, since the order
    in which they were lowered depends on names; names, what only people read, and what
    neither a result needs nor has an effect are dropped. `hlo` has to be serialised
    deterministically, as the core does: the order of map fields differs between
    processes otherwise, and is copied. In C++: for a small ResNet it takes 1.3 ms there
    in a new process, and 15 in Python.

    Raises:
        ValueError: It is not a serialised HloModuleProto.
    """
    given: list[tuple[int, bytes]] = []

    @TAKE_BYTES  # type: ignore[untyped-decorator]
    def take(ok: int, data: Any, size: int) -> None:
        given.append((ok, ctypes.string_at(data, size)))

    _native.entry().ipufeed_canonical(hlo, len(hlo), take)
    ((ok, data),) = given
    if not ok:
        raise ValueError(data.decode())
    return data
