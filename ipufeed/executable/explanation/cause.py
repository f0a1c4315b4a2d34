"""A cause: one sentence that says why two programs are not the same one."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

# Of the ops of a function that has been put in place of its call.
INLINED = re.compile(r"_tfg_(inlined|cf_sunk)_.*$")


@dataclass(frozen=True)
class Cause:
    """Why a program is not another one; `str()` is the sentence.

    Attributes:
        kind: What changed: "same" (nothing), "environment", "target", "flag", "option",
            "argument", "feed", "shape", "dtype", "constant", "weights", "loop count",
            "operands", "structure", "attribute", "results", "consequences" or "unknown".
        text: What changed, in words.
        advice: What to do about it, or "".
        name: Of what changed: an argument, an option, an op; or "".
        before: What it was, ready for JSON; None if that is no single value.
        after: What it is, likewise.
        source: "file:line" of the op, or "".
    """

    kind: str
    text: str
    advice: str = ""
    name: str = ""
    before: Any = None
    after: Any = None
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        advice = f": {self.advice}" if self.advice else ""
        return f"{self.text}{where}{advice}"


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


def counted(number: int, noun: str) -> str:
    """A number of things: "1 op", "1,234 ops"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
