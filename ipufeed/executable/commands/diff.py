"""Prints the differences between two programs, as `diff -u` does.

First their compile contexts, then their instructions. Exit code 1 if they differ.
"""

from __future__ import annotations

import difflib
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ipufeed.executable.commands.explain import two_programs
from ipufeed.exit_codes import FOUND_BAD, OK
from ipufeed.render.terminal_text import printable

if TYPE_CHECKING:
    from ipufeed.executable.hlo.hlo import Instruction
    from ipufeed.executable.program.program import Program


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the positional arguments A and B."""
    parser.add_argument(
        "a", nargs="?", metavar="A", help="the earlier, a file or key; or a folder"
    )
    parser.add_argument("b", nargs="?", metavar="B", help="the later, a file or key")


def run(options: Namespace) -> int:
    """Prints the differences."""
    before, after = two_programs(options)
    if before.key.digest == after.key.digest:
        print("the programs are the same")
        return OK
    lines = difflib.unified_diff(
        list(_lines_of(before)),
        list(_lines_of(after)),
        f"{before.name} {before.key.hex}",
        f"{after.name} {after.key.hex}",
        lineterm="",
    )
    for line in lines:
        print(printable(line))
    return FOUND_BAD


def _lines_of(program: Program) -> Iterator[str]:
    """Yields a program as text: the compile context, then a line per instruction."""
    from ipufeed.executable.hlo.hlo import Module

    text = json.dumps(program.context, indent=1, sort_keys=True)
    yield from text.splitlines()
    module = Module.parse(program.hlo)
    for n, computation in enumerate(module.computations):
        yield f"computation {n}" + (" (entry)" if computation is module.entry else "")
        places = {each: m for m, each in enumerate(computation.instructions)}
        for each in computation.instructions:
            yield _line_of(program, each, places, computation is module.entry)


def _line_of(
    program: Program, each: Instruction, places: dict[Instruction, int], entry: bool
) -> str:
    """Returns an instruction's number, shape, name, operands, value and op."""
    operands = ", ".join(str(places[operand]) for operand in each.operands)
    text = f"  {places[each]} = {each.shape} {each.target or each.opcode}({operands})"
    if each.parameter >= 0 and entry:
        text += f" {program.describe(each.parameter)}"
    value = each.constant
    if value is not None:
        text += f" {_value_text(value)}"
    return text + (f"  # {each.op_name}" if each.op_name else "")


def _value_text(value: object) -> str:
    """Returns a constant as text; of a long one, the size and a checksum."""
    import hashlib

    import numpy as np

    array = np.asarray(value)
    if array.size <= 8:
        return str(array.tolist())
    digest = hashlib.blake2b(array.tobytes(), digest_size=4).hexdigest()
    return f"{array.size} values, checksum {digest}"
