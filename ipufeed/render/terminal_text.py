"""Text from files and programs, safe for a terminal."""

from __future__ import annotations

import re
import unicodedata

# Suffix of the ops of an inlined function.
INLINED = re.compile(r"_tfg_(inlined|cf_sunk)_.*$")


def printable(text: str) -> str:
    """Returns text from outside with escapes for control characters."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    # C*: controls, formats such as "write from right to left", surrogates and unassigned
    # characters; Zl and Zp: separators of lines and paragraphs.
    category = unicodedata.category(character)
    if category[0] == "C" or category in ("Zl", "Zp"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character


def named(name: str) -> str:
    """Returns a name in backticks, without TensorFlow's suffix of inlined functions."""
    return f"`{printable(INLINED.sub('', name))}`"


def enumeration(items: list[str], most: int = 3) -> str:
    """Returns items separated by commas; of many, the first and how many more."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
