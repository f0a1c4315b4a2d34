"""The key of a program: 64 bits that identify it in the caches.

    HLO  --canonical()-->  bytes without names, ids and source lines  --+
    target, configuration, flags, versions  --context.py-->  JSON     --+--> blake2b

The key depends on what the program computes and on its compile context. It does not depend
on the program's name, on functions traced before, on the queue objects, on the IPU among
several, or on source lines.

Source: the hashed values follow graphcore/tensorflow's executable cache.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from ipufeed.executable.hlo.text import bytes_of
from ipufeed.executable.program.file_format import JsonObject


@dataclass(frozen=True)
class Key:
    """The identity of a compiled program.

    Attributes:
        number: 64 bits, the name of the file.
        digest: The whole hash, 256 bits in hex, which the file holds: it distinguishes
            two programs of the same number.
    """

    number: int
    digest: str

    @property
    def hex(self) -> str:
        """The number as in file names: lower case, without leading zeros."""
        return f"{self.number:x}"


def program_key(hlo: bytes, context: JsonObject) -> Key:
    """Returns the key of a serialised HloModuleProto in a compile context."""
    digest = hashlib.blake2b(canonical(hlo), digest_size=32)
    digest.update(json.dumps(context, sort_keys=True).encode())
    text = digest.hexdigest()
    # 0 stands for no program.
    return Key(int(text[:16], 16) or 1, text)


def canonical(hlo: bytes) -> bytes:
    """Returns a serialisation that depends only on what a program computes.

    Instructions are numbered in the order in which the results need them, since the order
    of lowering depends on names. Names, metadata and dead instructions without effects are
    dropped. `hlo` must be serialised deterministically, as the core does: the order of map
    fields is copied, and otherwise differs between processes. In C++: a small ResNet takes
    1.3 ms there in a new process, and 15 ms in Python.

    Raises:
        ValueError: `hlo` is not a serialised HloModuleProto.
    """
    return bytes_of("ipufeed_canonical", hlo, len(hlo))
