"""Text and figures for HTML and SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

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


def number(value: Any) -> float:
    """A number that can be shown; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def count(value: Any) -> str:
    """With a prefix: 26.6 M."""
    return scaled(number(value), 1000, ("", "k", "M", "G", "T", "P"))


def size(value: Any) -> str:
    """Of bytes: 1.5 MiB."""
    return scaled(number(value), 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def seconds(value: Any) -> str:
    """3,600 s, 0.4 s, 12 ms, 3.5 µs."""
    shown_value = number(value)
    if shown_value >= 100:
        return f"{shown_value:,.0f} s"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if shown_value >= factor:
            return f"{shown_value / factor:.3g} {unit}"
    return f"{shown_value / 1e-9:.3g} ns"


def scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    """Three digits and the unit that fits."""
    power = 0
    while abs(value) >= base and power < len(units) - 1:
        value /= base
        power += 1
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {units[power]}".rstrip()


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
    return "-" if value is None else show(number(value))


def amount(value: float) -> str:
    """Three to four digits, with thousands set apart."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def octets(value: float) -> str:
    """Bytes with powers of ten, as bandwidths have them."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} bytes"


def text_of(value: Any, most: int = MOST_TEXT) -> str:
    """Text from outside: escaped, of bounded length, and in a direction of its own."""
    return f"<bdi>{escaped(short(str(value), most))}</bdi>"
