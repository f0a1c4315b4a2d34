"""A program with its author's names, its key and its compile context."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

from ipufeed.executable.program.events import Lowered
from ipufeed.executable.program.file_format import Entry, JsonObject
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
    """A program that is being compiled, or has been.

    Attributes:
        name: The function's name, as its author wrote it.
        key: The program's key.
        arguments: Names of the parameters, in order.
        context: The compile context; see context.py.
        hlo: The serialised HloModuleProto, with names and source lines.
        kinds: Kind of each parameter: "argument", "variable" or "captured value".
        baked: The function's arguments that are constants of the program, since XLA
            needs their values to compile.
    """

    name: str
    key: Key
    arguments: tuple[str, ...]
    context: JsonObject = field(repr=False)
    hlo: bytes = field(repr=False)
    kinds: tuple[str, ...] = ()
    baked: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"program {self.name} ({self.key.hex})"

    @classmethod
    def of(cls, lowered: Lowered, key: Key, context: JsonObject) -> Program:
        """Makes a Program of a lowered one."""
        parameters = argument_names(lowered)
        return cls(
            name=author_name(lowered.name),
            key=key,
            arguments=tuple(name for name, _ in parameters),
            context=context,
            hlo=lowered.hlo,
            kinds=tuple(kind for _, kind in parameters),
            baked=tuple(baked_names(lowered)),
        )

    @classmethod
    def from_entry(cls, entry: Entry) -> Program:
        """Makes a Program of a file's content.

        Raises:
            KeyError, TypeError, ValueError: The header is invalid.
        """
        header = entry.header
        digest = str(header["digest"])
        return cls(
            name=str(header["name"]),
            key=Key(int(str(header["key"]), 16), digest),
            arguments=tuple(map(str, header["arguments"])),
            context=dict(header["surroundings"]),
            hlo=entry.program,
            kinds=tuple(map(str, header.get("argument_kinds", ()))),
            baked=tuple(map(str, header.get("baked_arguments", ()))),
        )

    def entry(self, executable: bytes, compile_seconds: float) -> Entry:
        """Returns the content of the program's file."""
        now = datetime.datetime.now(datetime.timezone.utc)
        header = {
            "key": self.key.hex,
            "digest": self.key.digest,
            "name": self.name,
            "arguments": list(self.arguments),
            "argument_kinds": list(self.kinds),
            "baked_arguments": list(self.baked),
            "surroundings": self.context,
            "created": now.isoformat(timespec="seconds"),
            "compile_seconds": round(compile_seconds, 4),
        }
        return Entry(header, self.hlo, executable)

    def kind(self, parameter: int) -> str:
        """Returns "argument", "variable" or "captured value"."""
        return self.kinds[parameter] if parameter < len(self.kinds) else ARGUMENT

    def describe(self, parameter: int) -> str:
        """Returns a parameter's name for a sentence: argument `x`."""
        if parameter >= len(self.arguments):
            return f"argument {parameter}"
        name, kind = self.arguments[parameter], self.kind(parameter)
        generated = kind == CAPTURED or name.startswith(OF)
        return f"{kind} {printable(name) if generated else named(name)}"

    def interface(self) -> JsonObject:
        """Returns inputs, outputs and feeds, ready for JSON."""
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


_find: Callable[[], list[Program]] = list


def set_programs(find: Callable[[], list[Program]]) -> None:
    """Sets the function that lists the programs of this process.

    The history of compilations (compile/programs) sets it: `explanation`, which reads the
    list, stands below `compile`.
    """
    global _find
    _find = find


def programs_of_process() -> list[Program]:
    """Lists the programs that this process has compiled or read, the oldest first."""
    return _find()
