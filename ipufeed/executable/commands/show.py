"""Shows a program: inputs, outputs, feeds, compile context, ops by type and constants."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING

from ipufeed.executable.commands.common import as_json, load, shortened, wrapped
from ipufeed.executable.program.file_format import JsonObject
from ipufeed.exit_codes import OK
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import counted, size

if TYPE_CHECKING:
    from ipufeed.executable.hlo.hlo import Module
    from ipufeed.executable.program.program import Program

MOST_CONSTANTS = 12


def add_arguments(parser: ArgumentParser) -> None:
    """Adds FILE|KEY and --json."""
    parser.add_argument("program", metavar="FILE|KEY", help="the program")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(options: Namespace) -> int:
    """Prints the description."""
    from ipufeed.executable.hlo.hlo import Module

    program = load(options.program)
    module = Module.parse(program.hlo)
    shown = _described(program, module)
    if options.json:
        print(as_json(shown))
        return OK
    print(f"{printable(program.name)}  {program.key.hex}")
    for title, items in (
        ("takes", shown["takes"]),
        ("gives", shown["gives"]),
        ("dequeues", shown["dequeues"]),
        ("enqueues", shown["enqueues"]),
    ):
        for item in items:
            print("  " + shortened(f"{title:9} {printable(item)}", 78))
    print("compiled for")
    for name, value in _flat(shown["surroundings"]):
        print("  " + shortened(f"{printable(name)} = {printable(str(value))}", 78))
    print(f"{shown['instructions']:,} instructions, of the ops")
    names = [f"{name} {number:,}" for name, number in shown["ops"].items()]
    print(wrapped(", ".join(map(printable, names)) or "(none)", "  "))
    total = sum(each["bytes"] for each in shown["constants"])
    print(f"{counted(len(shown['constants']), 'constant')} baked in, {size(total)}")
    for each in shown["constants"][:MOST_CONSTANTS]:
        value = "" if each["value"] is None else f" = {each['value']}"
        text = f"{each['shape']}{value} in {each['op']}"
        print("  " + shortened(printable(text), 78))
    if len(shown["constants"]) > MOST_CONSTANTS:
        print(f"  and {len(shown['constants']) - MOST_CONSTANTS} more; --json has all")
    return OK


def _flat(value: JsonObject, prefix: str = "") -> list[tuple[str, object]]:
    """Returns dotted names and values, omitting options that are empty, false or 0."""
    found = []
    for name, each in value.items():
        if isinstance(each, dict):
            found += _flat(each, f"{prefix}{name}.")
        elif each or not prefix.startswith(("config.", "flags.", "environment.")):
            found.append((prefix + name, each))
    return found


def _described(program: Program, module: Module) -> JsonObject:
    """Returns the description, ready for JSON."""
    from ipufeed.executable.explanation.values import Values

    values = Values(module)
    constants = []
    for each in module.instructions():
        if each.opcode == "constant":
            value = each.constant
            scalar = value is not None and value.size == 1
            constants.append(
                {
                    "shape": str(each.shape),
                    "bytes": each.shape.nbytes,
                    "value": str(value.ravel()[0])
                    if value is not None and scalar
                    else None,
                    "op": values.user_of(each),
                }
            )
    constants.sort(key=lambda each: -int(str(each["bytes"])))
    ops = Counter(each.op_type for each in module.instructions() if each.op_type)
    interface = program.interface()
    return {
        "program": program.name,
        "key": program.key.hex,
        "digest": program.key.digest,
        "takes": [
            f"{program.describe(n)} {shape}"
            for n, shape in enumerate(module.parameters)
        ],
        "gives": interface["outputs"],
        "dequeues": interface["infeeds"],
        "enqueues": [", ".join(each) for each in interface["outfeeds"]],
        "surroundings": program.context,
        "instructions": sum(1 for _ in module.instructions()),
        "ops": dict(ops.most_common()),
        "constants": constants,
    }
