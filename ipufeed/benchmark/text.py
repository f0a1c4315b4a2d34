"""Paragraphs for a terminal of 80 columns."""

from __future__ import annotations

import textwrap

WIDTH = 79


def wrap(text: str, indent: str = "") -> list[str]:
    """A paragraph, with what follows the first line indented further.

    Words stay whole, however long: a path can be copied.
    """
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def printable(text: str) -> str:
    """Without control characters: names and messages come from outside."""
    return "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in text.expandtabs(2)
    )
