"""Paragraphs on stderr."""

from __future__ import annotations

import sys

from ipufeed.render.terminal import paragraph


def wrap(text: str, indent: str = "") -> list[str]:
    """Returns a paragraph's lines, those behind the first indented further."""
    return paragraph(printable(text), sys.stderr, indent, indent + "  ")


def printable(text: str) -> str:
    """Without control characters: names and messages come from outside."""
    return "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in text.expandtabs(2)
    )
