"""The rows as text, on 80 columns."""

from __future__ import annotations

from ipufeed.benchmark.selftest.check import Row, Value
from ipufeed.render.terminal import wrap
from ipufeed.render.terminal_text import printable

WIDTHS = (30, 13, 13, 15)  # and "pass" or "FAIL"


def _line(*cells: str) -> str:
    first, *others, last = cells
    columns = [f"{first:<{WIDTHS[0]}}"]
    columns += [
        f"{cell:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=True)
    ]
    return "".join([*columns, "  ", last]).rstrip()


HEAD = _line("", "expected", "measured", "allowed", "")


def text_of(row: Row) -> str:
    """Returns a row; a measured value that does not fit its column gets its own line."""
    measured = printable(_cell(row.measured, row.unit))
    shown = _line(
        _clip(row.what, WIDTHS[0]),
        _clip(_cell(row.expected, row.unit), WIDTHS[1]),
        _clip(measured, WIDTHS[2]),
        _allowed(row),
        ("pass" if row.passed else "FAIL") + ("*" if row.repeated else ""),
    )
    if row.passed or len(measured) < WIDTHS[2]:
        return shown
    return "\n".join([shown, *wrap(measured, indent="    ")])


def _clip(text: str, width: int) -> str:
    """Returns the text, shortened so that a blank is left before the next column."""
    return text if len(text) < width else text[: width - 4] + "..."


def _cell(value: Value, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g} {unit}".rstrip()
    return "none" if value is None else f"{value} {unit}".rstrip()


def _allowed(row: Row) -> str:
    if row.allowed is None:
        return "exactly"
    low, high = row.allowed
    return "anything" if high == float("inf") else f"{low:.3g} .. {high:.3g}"
