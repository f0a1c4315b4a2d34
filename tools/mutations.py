"""Random damage to bytes, JSON values and protobuf messages, for the fuzzers in Python."""

from __future__ import annotations

import copy
import random
from typing import Any

NUMBERS = (0, 1, -1, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    0.5,
    1e308,
    10**400,
    "",
    "text",
    "\ud800",
    [],
    {},
    [[]],
    [1, "x", None],
    float("nan"),
    float("inf"),
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Returns `data` with one to four changes of a few bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        size = rng.choice((1, 1, 1, 2, 4, 8, 64))
        match rng.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = rng.randbytes(size)
            case 3:
                number = rng.choice(NUMBERS) & (2 ** (8 * size) - 1)
                changed[at : at + size] = number.to_bytes(size, "little")
            case 4:
                changed[at:at] = changed[at : at + rng.randint(1, 64)]
            case 5 if rng.random() < 0.2:
                del changed[at:]
    return bytes(changed)


def damaged_json(value: Any, rng: random.Random) -> Any:
    """Returns a copy of a JSON value with one to three changes somewhere inside."""
    root = {"root": copy.deepcopy(value)}
    for _ in range(rng.randint(1, 3)):
        inner, key = _place(root, rng)
        match rng.randrange(4):
            case 0 if inner is not root:
                del inner[key]
            case 1 if isinstance(inner, list):
                inner.insert(key, copy.deepcopy(rng.choice((*VALUES, inner[key]))))
            case 2 if isinstance(inner[key], (int, float)):
                inner[key] = rng.choice((-inner[key], 10**9, "1"))
            case _:
                inner[key] = copy.deepcopy(rng.choice(VALUES))
    return root.get("root")


def _place(root: dict[str, Any], rng: random.Random) -> tuple[Any, Any]:
    """Returns a container inside `root` and one of its keys."""
    inner: Any = root
    key: Any = "root"
    while inner[key] and isinstance(inner[key], (dict, list)) and rng.random() < 0.85:
        inner = inner[key]
        key = (
            rng.choice(list(inner))
            if isinstance(inner, dict)
            else rng.randrange(len(inner))
        )
    return inner, key


def damage_message(message: Any, rng: random.Random) -> None:
    """Changes one field somewhere inside a protobuf message."""
    fields = message.ListFields()
    while fields:
        field, value = rng.choice(fields)
        if field.message_type is None:
            _damage_field(message, field, value, rng)
            return
        if field.is_repeated:
            items = list(value.values()) if hasattr(value, "values") else list(value)
            if rng.random() < 0.1 and not hasattr(value, "values"):
                del value[rng.randrange(len(value))]
                return
            message = rng.choice(items)
            if not hasattr(message, "ListFields"):
                return
        else:
            if rng.random() < 0.05:
                message.ClearField(field.name)
                return
            message = value
        fields = message.ListFields()


def _damage_field(message: Any, field: Any, value: Any, rng: random.Random) -> None:
    if rng.random() < 0.2:
        message.ClearField(field.name)
        return
    try:
        if field.is_repeated:
            value[rng.randrange(len(value))] = _other(value[0], rng)
        else:
            setattr(message, field.name, _other(value, rng))
    except (ValueError, TypeError, OverflowError):
        message.ClearField(field.name)  # the new value does not fit


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((*NUMBERS, value + 1, value - 1, value ^ (1 << 32)))
    if isinstance(value, float):
        return rng.choice((0.0, -value, float("nan"), float("inf")))
    if isinstance(value, bytes):
        return damaged(value, rng)
    half = value[: len(value) // 2]
    return rng.choice(("", "x" * 300, value + "\x00", "\N{FAMILY}", half))
