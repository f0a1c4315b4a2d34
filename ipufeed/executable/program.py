"""A program as its author knows it: its name, its arguments, what it was compiled for."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import Any

from ipufeed.executable.file_format import Entry
from ipufeed.executable.key import Key
from ipufeed.executable.native import Lowered

# What TensorFlow puts around the name of a function that it traces.
BEFORE = re.compile(r"^_*(?:a_)?(?:inference|forward|backward)_")
AFTER = re.compile(r"(?:\[.*|_+XlaMustCompile.*|_+\d+|\.\d+)$")


@dataclass(frozen=True)
class Program:
    """A program that is, or has been, compiled.

    Attributes:
        name: Of the function, as its author wrote it.
        key: Its key.
        arguments: The names of its parameters, in order.
        surroundings: What it is compiled for.
        hlo: A serialised HloModuleProto, with names and source lines.
    """

    name: str
    key: Key
    arguments: tuple[str, ...]
    surroundings: dict[str, Any] = field(repr=False)
    hlo: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"program {self.name} ({self.key.hex})"

    @classmethod
    def of(cls, lowered: Lowered, key: Key, surroundings: dict[str, Any]) -> Program:
        """What has been lowered, with its author's names."""
        return cls(
            name=author_name(lowered.name),
            key=key,
            arguments=argument_names(lowered),
            surroundings=surroundings,
            hlo=lowered.hlo,
        )

    @classmethod
    def from_entry(cls, entry: Entry) -> Program:
        """What a file holds.

        Raises:
            KeyError, TypeError, ValueError: Its header is none of ours.
        """
        header = entry.header
        digest = str(header["digest"])
        return cls(
            name=str(header["name"]),
            key=Key(int(str(header["key"]), 16), digest),
            arguments=tuple(map(str, header["arguments"])),
            surroundings=dict(header["surroundings"]),
            hlo=entry.program,
        )

    def entry(self, executable: bytes, compile_seconds: float) -> Entry:
        """What is stored of it."""
        now = datetime.datetime.now(datetime.UTC)
        header = {
            "key": self.key.hex,
            "digest": self.key.digest,
            "name": self.name,
            "arguments": list(self.arguments),
            "surroundings": self.surroundings,
            "created": now.isoformat(timespec="seconds"),
            "compile_seconds": round(compile_seconds, 4),
        }
        return Entry(header, self.hlo, executable)

    def interface(self) -> dict[str, Any]:
        """What it takes, gives and exchanges with queues; ready for JSON."""
        from ipufeed.executable import hlo

        module = hlo.Module.parse(self.hlo)
        return {
            "name": self.name,
            "hash": self.key.hex,
            "inputs": [
                {"name": name, "shape": str(shape)}
                for name, shape in zip(self.arguments, module.parameters, strict=False)
            ],
            "outputs": [str(shape) for shape in module.results],
            "infeeds": [str(call.shape) for call in module.calls("ipufeed_dequeue")],
            "outfeeds": [
                [str(operand.shape) for operand in call.operands]
                for call in module.calls("ipufeed_enqueue")
            ],
        }


def author_name(name: str) -> str:
    """The name of a function without what TensorFlow and XLA add to it."""
    name = BEFORE.sub("", name)
    before = None
    while name != before:
        before, name = name, AFTER.sub("", name)
    return name or "program"


def argument_names(lowered: Lowered) -> tuple[str, ...]:
    """The names of a program's parameters, as the author called them if that is known."""
    from tensorflow.core.framework import function_pb2

    function = function_pb2.FunctionDef.FromString(lowered.function)
    names = [argument.name for argument in function.signature.input_arg]
    for index, attributes in function.arg_attr.items():
        given = attributes.attr.get("_user_specified_name")
        if given is not None and given.s and index < len(names):
            names[index] = given.s.decode("utf-8", "replace")
    return tuple(
        names[index] if 0 <= index < len(names) else f"argument {index}"
        for index in lowered.arguments
    )
