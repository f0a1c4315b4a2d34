"""Finds changed fields of an instruction: strides, directions, dimensions."""

from __future__ import annotations

from collections.abc import Iterator

from ipufeed.executable.hlo.hlo import Instruction, Message

# Fields that do not change what an instruction computes, or are compared elsewhere.
NOT_COMPARED = (
    "called_computation_ids",
    "control_predecessor_ids",
    "id",
    "literal",
    "metadata",
    "name",
    "operand_ids",
    "shape",
)

# Longer values are not shown.
SHORT = 40


def changed_fields(one: Instruction, other: Instruction) -> list[str]:
    """Returns the changed fields of two instructions, such as "dimensions 0 -> 1"."""
    if _strip(one.proto) == _strip(other.proto):
        return []
    found: list[str] = []
    for field in one.proto.DESCRIPTOR.fields:
        if field.name not in NOT_COMPARED:
            found += _changes(field, one.proto, other.proto, "")
    return found


def _changes(field: Message, was: Message, now: Message, where: str) -> Iterator[str]:
    """Yields the differences in a field of two messages, down to single values."""
    one, other = getattr(was, field.name), getattr(now, field.name)
    if one == other:
        return
    where += field.name.replace("_", " ")
    if not field.is_repeated:
        yield from _value_changes(field, one, other, where)
    elif field.message_type is None or len(one) != len(other):
        texts = [", ".join(str(each) for each in value) for value in (one, other)]
        short = field.message_type is None and max(map(len, texts)) <= SHORT
        yield f"{where} [{texts[0]}] -> [{texts[1]}]" if short else where
    else:
        for n, (each, now_each) in enumerate(zip(one, other, strict=True)):
            if each != now_each:
                yield from _value_changes(field, each, now_each, f"{where}[{n}]")


def _value_changes(
    field: Message, was: Message, now: Message, where: str
) -> Iterator[str]:
    """Yields the differences of two single values, which may be messages."""
    if field.message_type is not None:
        for inner in field.message_type.fields:
            yield from _changes(inner, was, now, f"{where} ")
        return
    texts = str(was), str(now)
    yield (
        f"{where} {texts[0]} -> {texts[1]}" if max(map(len, texts)) <= SHORT else where
    )


def _strip(proto: Message) -> bytes:
    """Serialises an instruction without the fields of NOT_COMPARED."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for name in NOT_COMPARED:
        copy.ClearField(name)
    data: bytes = copy.SerializeToString(deterministic=True)
    return data
