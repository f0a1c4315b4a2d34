"""The rows for people, on 80 columns."""

from __future__ import annotations

from typing import Any

from ipufeed.benchmark.selftest.check import Row
from ipufeed.render.terminal import printable, wrap

WIDTHS = (30, 13, 13, 15)  # and "pass" or "FAIL"


def line(*cells: str) -> str:
    """Cells in their columns; the first on the left, the others on the right."""
    first, *others, last = cells
    columns = [f"{first:<{WIDTHS[0]}}"]
    columns += [
        f"{cell:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=True)
    ]
    return "".join([*columns, "  ", last]).rstrip()


HEAD = line("", "expected", "measured", "allowed", "")


def show(row: Row) -> str:
    """A row; a measured value that does not fit its column has a line of its own."""
    measured = printable(cell(row.measured, row.unit))
    shown = line(
        clip(row.what, WIDTHS[0]),
        clip(cell(row.expected, row.unit), WIDTHS[1]),
        clip(measured, WIDTHS[2]),
        allowed(row),
        ("pass" if row.passed else "FAIL") + ("*" if row.repeated else ""),
    )
    if row.passed or len(measured) < WIDTHS[2]:
        return shown
    return "\n".join([shown, *wrap(measured, indent="    ")])


def clip(text: str, width: int) -> str:
    """The beginning of what does not fit, with a blank left before the next column."""
    return text if len(text) < width else text[: width - 4] + "..."


def cell(value: Any, unit: str) -> str:
    """A number in few digits, with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g} {unit}".rstrip()
    return "none" if value is None else f"{value} {unit}".rstrip()


def allowed(row: Row) -> str:
    """What passes."""
    if row.allowed is None:
        return "exactly"
    low, high = row.allowed
    return "anything" if high == float("inf") else f"{low:.3g} .. {high:.3g}"
