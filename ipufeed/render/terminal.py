"""Wraps text to the terminal's width; the only module that reads a terminal's size.

a terminal     --> its columns --> paragraphs are wrapped
a file, a pipe --> None        --> a paragraph is one line, which grep finds
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import Any, NoReturn, TextIO

from ipufeed.render.terminal_text import printable

WIDEST = 80  # longer lines are hard to read
NARROWEST = 20


def columns(stream: TextIO) -> int | None:
    """Returns the columns of a stream's terminal, at most WIDEST; None without one."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal; closed; no descriptor
        return None
    return min(max(found or WIDEST, NARROWEST), WIDEST)


def paragraph(
    text: str,
    stream: TextIO,
    first: str = "",
    rest: str = "",
    words_break: bool = False,
) -> list[str]:
    """Returns the lines of a paragraph.

    Args:
        text: One paragraph.
        stream: The stream that it is for.
        first: Prefix of the first line.
        rest: Prefix of the others.
        words_break: Whether a word that is wider than a line is cut. Default: it is not, so
            that a path can be copied.
    """
    width = columns(stream)
    if width is None:
        return [first + " ".join(text.strip().splitlines())]
    return textwrap.wrap(
        text,
        width - 1,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=words_break,
        break_on_hyphens=False,
    ) or [first]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help for the terminal's width, and keeps the line breaks of descriptions."""

    def __init__(self, prog: str, **arguments: Any) -> None:
        arguments.setdefault("width", (columns(sys.stdout) or WIDEST) - 2)
        super().__init__(prog, **arguments)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = []
        for line in text.splitlines():
            margin = indent + " " * (len(line) - len(line.lstrip()))
            lines += textwrap.wrap(
                line.strip(), width, initial_indent=margin, subsequent_indent=margin
            ) or [""]
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """Parses a command line; its errors are wrapped at the terminal's width."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and an error, and ends the process with exit code 2."""
        self.print_usage(sys.stderr)
        lines = wrap(f"{self.prog}: error: {message}")
        self.exit(2, "\n".join(lines) + "\n")


def wrap(text: str, indent: str = "") -> list[str]:
    """Returns a paragraph's lines for stderr; those after the first are indented."""
    return paragraph(printable(text.expandtabs(2)), sys.stderr, indent, indent + "  ")
