"""Numbers with their units, as text for people."""

from __future__ import annotations


def number(value: float) -> str:
    """Three to four significant digits, with thousands set apart."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def size(count: float) -> str:
    """In bytes, kB, MB or GB (powers of ten)."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} bytes"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 element`, `2 elements`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def rate_text(rate: float) -> str:
    """`12,345` or `1.23`."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
