"""Figures and names as the page shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipufeed.render.text import escaped, number, short

MOST_ROWS = 60
MOST_TEXT = 2000


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
