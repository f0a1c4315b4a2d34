"""A program as its author knows it: its name, its arguments, what it was compiled for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from ipufeed.executable.program.events import Lowered
from ipufeed.executable.program.file_format import Entry
from ipufeed.executable.program.key import Key
from ipufeed.executable.program.names import (
    ARGUMENT,
    CAPTURED,
    OF,
    argument_names,
    author_name,
    baked_names,
)
from ipufeed.render.terminal_text import named, printable


@dataclass(frozen=True)
class Program:
    """A program that is, or has been, compiled.

    Attributes:
        name: Of the function, as its author wrote it.
        key: Its key.
        arguments: The names of its parameters, in order.
        surroundings: What it is compiled for.
        hlo: A serialised HloModuleProto, with names and source lines.
        kinds: Of each parameter: "argument", "variable" or "captured value".
        baked: The function's arguments that are not parameters, since XLA had to know
            their values.
    """

    name: str
    key: Key
    arguments: tuple[str, ...]
    surroundings: dict[str, Any] = field(repr=False)
    hlo: bytes = field(repr=False)
    kinds: tuple[str, ...] = ()
    baked: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"program {self.name} ({self.key.hex})"

    @classmethod
    def of(cls, lowered: Lowered, key: Key, surroundings: dict[str, Any]) -> Program:
        """What has been lowered, with its author's names."""
        parameters = argument_names(lowered)
        return cls(
            name=author_name(lowered.name),
            key=key,
            arguments=tuple(name for name, _ in parameters),
            surroundings=surroundings,
            hlo=lowered.hlo,
            kinds=tuple(kind for _, kind in parameters),
            baked=tuple(baked_names(lowered)),
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
            kinds=tuple(map(str, header.get("argument_kinds", ()))),
            baked=tuple(map(str, header.get("baked_arguments", ()))),
        )

    def entry(self, executable: bytes, compile_seconds: float) -> Entry:
        """What is stored of it."""
        now = datetime.datetime.now(datetime.timezone.utc)
        header = {
            "key": self.key.hex,
            "digest": self.key.digest,
            "name": self.name,
            "arguments": list(self.arguments),
            "argument_kinds": list(self.kinds),
            "baked_arguments": list(self.baked),
            "surroundings": self.surroundings,
            "created": now.isoformat(timespec="seconds"),
            "compile_seconds": round(compile_seconds, 4),
        }
        return Entry(header, self.hlo, executable)

    def kind(self, parameter: int) -> str:
        """What a parameter is: "argument", "variable" or "captured value"."""
        return self.kinds[parameter] if parameter < len(self.kinds) else ARGUMENT

    def describe(self, parameter: int) -> str:
        """A parameter in a sentence: argument `x`."""
        if parameter >= len(self.arguments):
            return f"argument {parameter}"
        name, kind = self.arguments[parameter], self.kind(parameter)
        ours = kind == CAPTURED or name.startswith(OF)
        return f"{kind} {printable(name) if ours else named(name)}"

    def interface(self) -> dict[str, Any]:
        """What it takes, gives and exchanges with queues; ready for JSON."""
        from ipufeed.executable.hlo import hlo

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
