"""Explains why program B is not program A: the causes, the most important first.

Without arguments: the last two of the same program in the cache folder; with a folder,
those in it.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ipufeed.executable.commands.common import (
    CommandError,
    as_json,
    last_two,
    load,
    wrapped,
)
from ipufeed.exit_codes import OK
from ipufeed.render.terminal_text import printable

if TYPE_CHECKING:
    from ipufeed.executable.program.program import Program


def add_arguments(parser: ArgumentParser) -> None:
    """Adds A, B and --json."""
    parser.add_argument(
        "a", nargs="?", metavar="A", help="the earlier, a file or key; or a folder"
    )
    parser.add_argument("b", nargs="?", metavar="B", help="the later, a file or key")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def two_programs(options: Namespace) -> tuple[Program, Program]:
    """Returns the programs that A and B name.

    Raises:
        CommandError: Only one program is named.
    """
    folder = Path(options.a).expanduser() if options.a else None
    if folder is None or (options.b is None and folder.is_dir()):
        one, other = last_two(folder)
        return load(str(one.path)), load(str(other.path))
    if options.b is None:
        raise CommandError("One program is named: name the other, too, or none.")
    return load(options.a), load(options.b)


def run(options: Namespace) -> int:
    """Prints the causes."""
    from ipufeed.executable.explanation.explain import explain_programs

    before, after = two_programs(options)
    causes = explain_programs(before, after)
    if options.json:
        print(
            as_json(
                {
                    "before": {"program": before.name, "key": before.key.hex},
                    "after": {"program": after.name, "key": after.key.hex},
                    "causes": [
                        dataclasses.asdict(cause) | {"sentence": str(cause)}
                        for cause in causes
                    ],
                }
            )
        )
        return OK
    print(f"before  {printable(str(before))}\nafter   {printable(str(after))}")
    for cause in causes:
        print(wrapped(str(cause), "  ", first="- "))
    return OK
