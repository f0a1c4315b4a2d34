"""Text from files and programs, as it may be printed to a terminal."""

from __future__ import annotations

import re
import unicodedata

# Of the ops of a function that has been put in place of its call.
INLINED = re.compile(r"_tfg_(inlined|cf_sunk)_.*$")


def printable(text: str) -> str:
    """Text from a file, without what would steer a terminal."""
    return "".join(escaped(each) for each in text)


def escaped(character: str) -> str:
    """A character, or what stands for one that is not for the eye."""
    # Categories: C* are controls, formats such as "write from right to left", surrogates
    # and what is not assigned; Zl and Zp end lines.
    category = unicodedata.category(character)
    if category[0] == "C" or category in ("Zl", "Zp"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character


def named(name: str) -> str:
    """A name in a sentence, without what TensorFlow has added inside a loop."""
    return f"`{printable(INLINED.sub('', name))}`"


def enumeration(items: list[str], most: int = 3) -> str:
    """Items after each other; of many, how many are left out."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
