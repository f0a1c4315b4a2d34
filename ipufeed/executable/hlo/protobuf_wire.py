"""Reads protobuf messages for which there is no Python class: field by field.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
SIZES = {FIXED64: 8, FIXED32: 4}


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends.

    Raises:
        ValueError: The bytes end within it, or it is too long.
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


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field, in order; bytes are not copied.

    Raises:
        ValueError: It is not a message, or not whole.
    """
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(view, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = varint(view, at)
        elif kind in SIZES:
            size = SIZES[kind]
        else:
            raise ValueError(f"the message is damaged at byte {at}")
        if at + size > len(view):
            raise ValueError(f"the message ends within its field {number}")
        yield number, view[at : at + size]
        at += size


def parts(data: bytes | memoryview, number: int) -> list[memoryview]:
    """The values of a field of bytes, strings or messages.

    Raises:
        ValueError: See `fields`.
    """
    return [
        value
        for each, value in fields(data)
        if each == number and isinstance(value, memoryview)
    ]
