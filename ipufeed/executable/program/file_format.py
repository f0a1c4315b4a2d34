"""The format of .poplar_exec files, with checksums.

    magic | length and SHA-256 of the header | header (JSON) | program | executable | more

The header has the length and SHA-256 of each part, which detects damage. It does not
detect attacks: a user that can write the file can write the checksums, so safety.py checks
the file's owner and mode.

`program` is the HloModuleProto with names and source lines, compressed by zlib, which
`ipufeed.executable.explain` reads. XLA loads `executable`. An application file has more
parts (ipufeed/applications/file.py), which the header lists in their order.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from ipufeed.errors import DamagedFileError
from ipufeed.render.units import counted

JsonObject = dict[str, Any]

MAGIC = b"ipufeed executable 1\n"
_FIXED = struct.Struct("<Q32s")
MAX_HEADER = 16 << 20
PARTS = ("program", "executable")


@dataclass(frozen=True)
class Entry:
    """A compiled program, as stored in a file.

    Attributes:
        header: Key, digest, name, argument names, compile context, times, for JSON.
        program: The serialised HloModuleProto, with names.
        executable: The bytes that XLA loads.
        more: Further parts, by name.
    """

    header: JsonObject
    program: bytes = field(repr=False)
    executable: bytes = field(repr=False)
    more: dict[str, bytes] = field(default_factory=dict, repr=False)


def pack(entry: Entry) -> bytes:
    """Returns the bytes of a file."""
    # Level 1: compiling takes about a second, and a higher level would double that.
    parts = {
        "program": zlib.compress(entry.program, 1),
        "executable": entry.executable,
        **entry.more,
    }
    sums = {
        name: [len(part), hashlib.sha256(part).hexdigest()]
        for name, part in parts.items()
    }
    header = json.dumps(entry.header | {"parts": sums}).encode()
    fixed = _FIXED.pack(len(header), hashlib.sha256(header).digest())
    return b"".join((MAGIC, fixed, header, *parts.values()))


def unpack_header(data: bytes) -> tuple[JsonObject, int]:
    """Returns the header of a file's bytes, and its end.

    Raises:
        DamagedFileError: The header is missing or damaged.
    """
    start = len(MAGIC) + _FIXED.size
    if not data.startswith(MAGIC):
        raise DamagedFileError("it does not have ipufeed's header")
    if len(data) < start:
        raise DamagedFileError(f"it ends after {len(data)} bytes")
    length, digest = _FIXED.unpack_from(data, len(MAGIC))
    if length > MAX_HEADER or len(data) < start + length:
        raise DamagedFileError(f"its header of {length} bytes is truncated or damaged")
    text = data[start : start + length]
    if hashlib.sha256(text).digest() != digest:
        raise DamagedFileError("the checksum of its header does not match")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise DamagedFileError("its header is not a JSON object")
    return header, start + length


def unpack(data: bytes) -> Entry:
    """Returns the content of a file.

    Raises:
        DamagedFileError: The bytes are not a whole file.
    """
    header, at = unpack_header(data)
    parts: dict[str, bytes] = {}
    for name in (*PARTS, *_more(header)):
        length, digest = _sum_of(header, name)
        part = data[at : at + length]
        at += length
        if len(part) != length or hashlib.sha256(part).hexdigest() != digest:
            raise DamagedFileError(f"the checksum of the {name} does not match")
        parts[name] = part
    if at != len(data):
        raise DamagedFileError(
            f"{counted(len(data) - at, 'byte')} of something else behind its end"
        )
    program, executable = (parts.pop(name) for name in PARTS)
    return Entry(header, inflate(program), executable, parts)


def _more(header: JsonObject) -> list[str]:
    """Returns the names of the parts after PARTS, in the order of the file."""
    described = header.get("parts")
    names = described if isinstance(described, dict) else {}
    return [name for name in names if name not in PARTS]


def _sum_of(header: JsonObject, name: str) -> tuple[int, str]:
    """Returns length and SHA-256 of a part; raises DamagedFileError."""
    described = header.get("parts")
    match described.get(name) if isinstance(described, dict) else None:
        case [int(length), str(digest)] if length >= 0:
            return length, digest
    raise DamagedFileError(f"its header does not describe the {name}")


MAX_PROGRAM = 1 << 31  # protobuf's own limit


def inflate(part: bytes) -> bytes:
    """Decompresses a program, up to MAX_PROGRAM: a small file must not fill the memory."""
    unpacker = zlib.decompressobj()
    try:
        program = unpacker.decompress(part, MAX_PROGRAM)
    except zlib.error as error:
        raise DamagedFileError(f"the program cannot be unpacked ({error})") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise DamagedFileError("the program is truncated or too large")
    return program
