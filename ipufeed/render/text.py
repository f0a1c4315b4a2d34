"""Text and figures for HTML and SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

from ipufeed.render import units

# Between the parts of one emoji, or of letters that join.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


MOST_ROWS = 60
MOST_TEXT = 2000


def escaped(what: str) -> str:
    """Text for SVG and HTML.

    What XML does not allow is left out, and so is what would change the order in which
    the rest is read (marks of the bidirectional algorithm).
    """
    return html.escape("".join(map(shown, what)), quote=True)


def shown(character: str) -> str:
    """The character, a space for any other space, or nothing."""
    if character.isprintable() or character in "\n\t" or character in JOINERS:
        return character
    return " " if character.isspace() else ""


def short(text: str, most: int) -> str:
    """At most `most` characters; the middle is what is left out."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def finite(value: Any) -> float:
    """A number that can be shown; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def count(value: Any) -> str:
    """units.prefixed, of a value from outside."""
    return units.prefixed(finite(value))


def size(value: Any) -> str:
    """units.size, of a value from outside."""
    return units.size(finite(value))


def seconds(value: Any) -> str:
    """units.duration, of a value from outside."""
    return units.duration(finite(value))


def part(values: Any, name: str) -> dict[str, Any]:
    """An object within another; {} if it is none."""
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def rows_of(values: Any, name: str) -> list[dict[str, Any]]:
    """A list of objects within another; what is none is left out."""
    found = values.get(name) if isinstance(values, dict) else None
    items = found if isinstance(found, list) else []
    return [each for each in items if isinstance(each, dict)]


def optional(value: Any, show: Callable[[float], str]) -> str:
    """A figure, or a dash for what was not measured."""
    return "-" if value is None else show(finite(value))


def text_of(value: Any, most: int = MOST_TEXT) -> str:
    """Text from outside: escaped, of bounded length, and in a direction of its own."""
    return f"<bdi>{escaped(short(str(value), most))}</bdi>"
