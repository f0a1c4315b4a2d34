"""Deletes programs from a folder: those that any of the options selects.

Their next use compiles them again; running processes are not affected. Files that are not
executables of ipufeed are never deleted.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TypeVar

from ipufeed.executable.commands.common import (
    CommandError,
    File,
    duration,
    files_in,
    folder_of,
    size,
)
from ipufeed.exit_codes import FOUND_BAD, OK
from ipufeed.render import units
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import counted

T = TypeVar("T")


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Wraps a parser so that argparse shows its error."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return convert


def _count(text: str) -> int:
    """Parses a number of files; raises ValueError."""
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"must be a whole number, 0 or more, got {text!r}")
    return int(text)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds DIR and the options."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the folder")
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        type=_checked(duration),
        help="those not written for this time: 90min, 12h, 30d, 8w",
    )
    parser.add_argument(
        "--keep", metavar="N", type=_checked(_count), help="all but the newest N"
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=_checked(size),
        help="the oldest, until the rest is no larger: 500M, 1G",
    )
    parser.add_argument(
        "--other-versions",
        action="store_true",
        help="those that this version of TensorFlow and ipufeed, on this CPU, cannot use",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only list what would be deleted"
    )


def run(options: Namespace) -> int:
    """Deletes the files, and prints their names."""
    wanted = (options.older_than, options.keep, options.max_size)
    if all(each is None for each in wanted) and not options.other_versions:
        raise CommandError(
            "Choose what to delete: --older-than, --keep, --max-size or --other-versions; "
            "--keep 0 for all."
        )
    folder = folder_of(options)
    found = list(files_in(folder))
    files = [file for file in found if file.is_executable]
    files.sort(key=lambda file: file.modified, reverse=True)
    chosen = _choose(files, options, time.time())
    freed, failed = 0, 0
    for file, reason in chosen:
        if not options.dry_run:
            try:
                file.path.unlink(missing_ok=True)
            except OSError as error:
                failed += 1
                print(f"{file.key}  cannot be deleted: {error.strerror}")
                continue
        freed += file.nbytes
        verb = "would be deleted" if options.dry_run else "deleted"
        print(f"{printable(file.key):16}  {verb}: {reason}")
    done = "would be freed" if options.dry_run else "freed"
    kept = len(files) - len(chosen) + failed
    print(f"{units.size(freed)} {done}, {counted(kept, 'program')} kept")
    if len(found) > len(files):
        others = counted(len(found) - len(files), "file")
        print(f"{others} not touched that cannot be read or trusted: see `check`")
    return FOUND_BAD if failed else OK


def _choose(
    files: list[File], options: Namespace, now: float
) -> list[tuple[File, str]]:
    """Returns the files to delete with reasons, of files sorted from new to old."""
    chosen: list[tuple[File, str]] = []
    total = 0
    kept = 0
    for file in files:
        why = ""
        if options.older_than is not None and now - file.modified > options.older_than:
            why = "older"
        elif options.other_versions and file.why_not_here():
            why = file.why_not_here()
        elif options.keep is not None and kept >= options.keep:
            why = f"not among the newest {options.keep}"
        elif options.max_size is not None and total + file.nbytes > options.max_size:
            why = f"beyond {units.size(options.max_size)}"
        if why:
            chosen.append((file, why))
        else:
            total += file.nbytes
            kept += 1
    return chosen
