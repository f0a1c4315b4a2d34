"""Checks each file of a folder: checksums, names, and which users may write to it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ipufeed.errors import DamagedFileError
from ipufeed.executable.commands.common import File, files_in, folder_of, wrapped
from ipufeed.executable.store import safety
from ipufeed.executable.store.cache import read_trusted
from ipufeed.exit_codes import FOUND_BAD, OK
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import counted


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the positional argument DIR."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the folder")


def run(options: Namespace) -> int:
    """Prints the faults, file by file."""
    folder = folder_of(options)
    problems = []
    try:
        safety.check_folder(folder)
    except safety.UnsafeError as error:
        problems.append(printable(str(error)))
    number = 0
    for file in files_in(folder):
        number += 1
        why = _problem_of(file)
        if why:
            problems.append(f"{printable(file.path.name)}: {why}")
    for problem in problems:
        print(wrapped(problem, "    ", first=""))
    if problems:
        print(
            f"{counted(len(problems), 'problem')}, {counted(number, 'file')}. What cannot "
            "be used is compiled again and replaced."
        )
        return FOUND_BAD
    print(f"{counted(number, 'file')}, all whole and safe")
    return OK


def _problem_of(file: File) -> str:
    """Returns the fault of a file, or ""."""
    if file.problem:
        return file.problem
    try:
        entry = read_trusted(file.path)
    except FileNotFoundError:
        return ""  # deleted since the folder was listed
    except (DamagedFileError, OSError, ValueError) as error:
        return printable(str(error))
    missing = [
        name for name in ("digest", "name", "surroundings") if name not in entry.header
    ]
    return f"its header lacks {', '.join(missing)}" if missing else ""
