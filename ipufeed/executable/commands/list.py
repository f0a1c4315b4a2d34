"""Lists the programs of a folder, the newest first, and whether they can be used here."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from ipufeed.executable.commands.common import (
    File,
    as_json,
    files_in,
    folder_of,
    recency,
    shortened,
    wrapped,
)
from ipufeed.executable.program.file_format import JsonObject
from ipufeed.exit_codes import OK
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import age, counted, size


def add_arguments(parser: ArgumentParser) -> None:
    """Adds DIR and --json."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the folder")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(options: Namespace) -> int:
    """Prints a line for each program of the folder."""
    folder = folder_of(options)
    files = sorted(files_in(folder), key=recency, reverse=True)
    if options.json:
        print(as_json([_json_of(file) for file in files]))
        return OK
    print(
        f"{'KEY':16}  {'PROGRAM':24}  {'SIZE':>7}  {'AGE':>6}  {'COMPILED':>8}  {'HERE':4}"
    )
    for file in files:
        print(_table_row(file))
        if file.text("key", file.key) != printable(file.key):
            print(wrapped(f"in the file {printable(file.path.name)}", "  "))
        arguments = ", ".join(_describe_arguments(file))
        if arguments:
            print("  " + shortened(f"takes {arguments}", 78))
        why = file.why_not_here()
        if why:
            print(wrapped(f"not used here: {why}", "  "))
    programs = [file for file in files if file.is_executable]
    total = size(sum(file.nbytes for file in programs))
    others = len(files) - len(programs)
    rest = f"; {counted(others, 'other file')}" if others else ""
    print(f"{counted(len(programs), 'program')}, {total}{rest}")
    return OK


def _table_row(file: File) -> str:
    seconds = file.header.get("compile_seconds")
    took = f"{seconds:.2f} s" if isinstance(seconds, (int, float)) else "?"
    return (
        f"{shortened(file.text('key', file.key), 16):16}  "
        f"{shortened(file.text('name'), 24):24}  {size(file.nbytes):>7}  "
        f"{age(time.time() - recency(file)[0]):>6}  {took:>8}  "
        f"{'no' if file.why_not_here() else 'yes'}"
    )


def _describe_arguments(file: File) -> list[str]:
    """Returns the names of a program's arguments."""
    names, kinds = file.header.get("arguments"), file.header.get("argument_kinds")
    if not isinstance(names, list):
        return []
    if not isinstance(kinds, list) or len(kinds) != len(names):
        kinds = ["argument"] * len(names)
    return [
        printable(str(name) if kind == "argument" else f"{kind} {name}")
        for name, kind in zip(names, kinds, strict=True)
    ]


def _json_of(file: File) -> JsonObject:
    """Returns a file's entry in the JSON."""
    why = file.why_not_here()
    return {
        "key": file.key,
        "path": str(file.path),
        "program": file.header.get("name"),
        "arguments": file.header.get("arguments"),
        "bytes": file.nbytes,
        "created": file.header.get("created"),
        "compile_seconds": file.header.get("compile_seconds"),
        "usable_here": not why,
        "why_not": why,
    }
