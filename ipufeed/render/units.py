"""Numbers with their units, as text.

The only module that makes such text. Bytes have powers of ten, as bandwidths do.
"""

from __future__ import annotations

import math

# A value from here on is rounded to the next larger unit: `1 ms`, not `1e+03 µs`.
ROUNDED_UP = 0.9995


def number(value: float) -> str:
    """Returns three to four significant digits, with separated thousands."""
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def rate_text(rate: float) -> str:
    """Returns `12,345` or `1.23`."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def prefixed(value: float) -> str:
    """Returns three digits and a prefix: `26.6 M`."""
    prefixes = ("", "k", "M", "G", "T", "P")
    power = 0
    while abs(value) >= 1000 * ROUNDED_UP and power < len(prefixes) - 1:
        value /= 1000
        power += 1
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {prefixes[power]}".rstrip()


def size(count: float) -> str:
    """Returns a size in bytes, kB, MB, GB or TB."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale * ROUNDED_UP:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Returns a duration in the unit that fits: `3,600 s`, `0.4 s`, `12 ms`, `3.5 µs`."""
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale * ROUNDED_UP:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def duration_up(seconds: float) -> str:
    """Returns a duration rounded up to whole seconds or minutes."""
    seconds = math.ceil(seconds)
    return f"{seconds} s" if seconds < 600 else f"{math.ceil(seconds / 60)} min"


def age(seconds: float) -> str:
    """Returns a time ago, in the largest unit that fits: `3 h`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def percent(fraction: float) -> str:
    """Returns `4.2 %`, or `a factor of 3.4` for a fraction of at least 1."""
    if fraction < 1:
        return f"{fraction * 100:.2g} %"
    if fraction < 9:
        return f"a factor of {1 + fraction:.2g}"
    return "more than a factor of ten"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Returns `1 element`, `2 elements`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
