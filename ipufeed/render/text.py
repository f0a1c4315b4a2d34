"""Text and figures from outside, for HTML and SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

from ipufeed.render import units

JsonObject = dict[str, Any]

# They join the parts of an emoji, or letters.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
MOST_ROWS = 60
MOST_TEXT = 2000


def escaped(text: str) -> str:
    """Returns text escaped for SVG and HTML.

    Without the characters that XML does not allow, and without marks of the bidirectional
    algorithm, which would change the order of the text around it.
    """
    return html.escape("".join(map(_shown, text)), quote=True)


def _shown(character: str) -> str:
    """Returns the character, a space for any other space, or an empty string."""
    if character.isprintable() or character in "\n\t" or character in JOINERS:
        return character
    return " " if character.isspace() else ""


def short(text: str, most: int) -> str:
    """Returns text of at most `most` characters, shortened in the middle."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def finite(value: object) -> float:
    """Returns a value as a number that can be shown; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def count(value: object) -> str:
    """Returns units.prefixed of a value from outside."""
    return units.prefixed(finite(value))


def size(value: object) -> str:
    """Returns units.size of a value from outside."""
    return units.size(finite(value))


def seconds(value: object) -> str:
    """Returns units.duration of a value from outside."""
    return units.duration(finite(value))


def part(values: object, name: str) -> JsonObject:
    """Returns an object within another; {} for any other value."""
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def rows_of(values: object, name: str) -> list[JsonObject]:
    """Returns the objects of a list within another object."""
    found = values.get(name) if isinstance(values, dict) else None
    items = found if isinstance(found, list) else []
    return [each for each in items if isinstance(each, dict)]


def optional(value: object, show: Callable[[float], str]) -> str:
    """Returns a figure as text, or a dash for None."""
    return "-" if value is None else show(finite(value))


def text_of(value: object, most: int = MOST_TEXT) -> str:
    """Returns text from outside: escaped, shortened, and isolated in its direction."""
    return f"<bdi>{escaped(short(str(value), most))}</bdi>"
