"""How wide text is: the only place that asks for a terminal's size.

stream is a terminal --> its columns --> paragraphs are wrapped
a file or a pipe     --> None        --> a paragraph is one line, which grep finds
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import Any

WIDEST = 80  # longer lines are hard to read
NARROWEST = 20


def columns(stream: Any) -> int | None:
    """Returns how many columns text on a stream may take.

    Args:
        stream: A file object, such as sys.stderr.

    Returns:
        The columns of its terminal, at most WIDEST; None where it is a file or a pipe.
    """
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # not a terminal; closed; no descriptor
        return None
    return min(max(found or WIDEST, NARROWEST), WIDEST)


def paragraph(
    text: str, stream: Any, first: str = "", rest: str = "", words_break: bool = False
) -> list[str]:
    """Returns the lines of a paragraph.

    Args:
        text: One paragraph.
        stream: Where it is going to be printed.
        first: What stands before the first line.
        rest: What stands before the others.
        words_break: Whether a word that is wider than a line is cut. Default: it stays
            whole, so that a path can be copied.
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
    """Help that fits the terminal, with descriptions laid out as they are written.

    A page of help that goes elsewhere is as wide as on the widest terminal.
    """

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


def wrap(text: str, indent: str = "") -> list[str]:
    """Returns a paragraph's lines, those behind the first indented further."""
    return paragraph(printable(text), sys.stderr, indent, indent + "  ")


def printable(text: str) -> str:
    """Without control characters: names and messages come from outside."""
    return "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in text.expandtabs(2)
    )
