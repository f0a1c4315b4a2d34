"""Draws a timeline: a row for each stage, time from left to right, idle time in grey.

The SVG works standalone, in a light or a dark page: text and lines have the colour of the
surrounding text, other colours have enough contrast on white and on black. Its size is in
pixels, since scaled text is hard to read.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from typing import Protocol

from ipufeed.parallel.pipeline import schedules
from ipufeed.parallel.timelines.slices import UPDATE, Execution, Slice, Utilisation

# Of mini-batches, cyclic: white digits are legible on each.
COLOURS = (
    "#3b82c4",
    "#cf7229",
    "#2a9a8c",
    "#b8507f",
    "#8f67cc",
    "#5f8a2f",
    "#a8632f",
    "#5c6fb8",
)
GREY = "#8a8a92"
STYLE = (
    "<style>svg{color:#1d1d22;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#e8e8ee;background:#16161a}}</style>"
)
FONT, CHARACTER = 12, 6.8  # pixels; the latter is the width of a digit
ROW, TOP, FOOT = 26, 58, 40
NAMES, PERCENTAGES = 94, 112  # pixels of the columns left and right of the rows
EDGE = 8


class Timeline(Protocol):
    """The drawn data, as parallel.timelines.timeline.Timeline has it."""

    executions: list[Execution]

    @property
    def start_ns(self) -> int:
        """When the first stage began, on the monotonic clock."""

    @property
    def end_ns(self) -> int:
        """When the last stage ended."""

    def rows(self) -> dict[str, list[Slice]]:
        """Returns the slices of each stage, by its name."""

    def utilisation(self) -> dict[int, Utilisation]:
        """Returns the utilisation of each IPU."""


def draw(timeline: Timeline, width: int, whole_ms: float | None) -> str:
    """Returns the SVG; the arguments are those of `Timeline.to_svg`."""
    rows = timeline.rows()
    height = TOP + ROW * len(rows) + FOOT
    own = max(1, timeline.end_ns - timeline.start_ns)
    # Includes an update after the last stage.
    last = max(each.end_ns for row in rows.values() for each in row)
    whole = max(own, last - timeline.start_ns)
    if whole_ms is not None:
        whole = max(whole, round(whole_ms * 1e6))
    fractions = timeline.utilisation()
    room = width - NAMES - PERCENTAGES
    scale = room / whole
    shown = ", ".join(f"IPU {ipu} {fraction}" for ipu, fraction in fractions.items())
    title = f"{_heading(timeline)}. At work, and at best: {shown}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{FONT}" fill="currentColor">',
        f"<title>{html.escape(title)}</title>{STYLE}",
        _words(EDGE, 18, _heading(timeline), 'font-weight="600"'),
        _words(
            EDGE, 34, f"in {own / 1e6:.1f} ms. A colour is a mini-batch, grey is idle."
        ),
        _words(width - EDGE, 52, "at work (ideal)", 'text-anchor="end"'),
    ]
    parts += _ruler(whole, scale, TOP + ROW * len(rows))
    ipu = None
    for number, (name, slices) in enumerate(rows.items()):
        y = TOP + number * ROW
        parts.append(_words(EDGE, y + 17, name))
        if slices[0].label != UPDATE and slices[0].ipu != ipu:
            ipu = slices[0].ipu
            fraction = str(fractions[ipu])
            parts.append(_words(width - EDGE, y + 17, fraction, 'text-anchor="end"'))
        parts.append(
            f'<rect x="{NAMES}" y="{y + 2}" width="{room}" height="{ROW - 4}" '
            f'fill="{GREY}" fill-opacity=".22"/>'
        )
        for each in slices:
            x = NAMES + (each.start_ns - timeline.start_ns) * scale
            parts.append(_block(each, x, (each.end_ns - each.start_ns) * scale, y))
    return "\n".join([*parts, "</svg>", ""])


def _heading(timeline: Timeline) -> str:
    """Returns the title: the pipelines' schedule, if all have the same."""
    found = {each.schedule for each in timeline.executions}
    text = next(iter(found)) if len(found) == 1 else ""
    if schedules.read(text) is None:
        return "Stages of a pipeline"
    copies = Counter(each.first_ipu for each in timeline.executions)
    executions = max(copies.values())
    times = f" in each of {executions} executions" if executions > 1 else ""
    what = text.partition(", stages")[0]
    return re.sub(r"\b1 mini-batches", "1 mini-batch", what) + times


def _block(each: Slice, x: float, width: float, y: int) -> str:
    """Draws a slice, with its number if there is room."""
    is_update = each.label == UPDATE
    colour = "currentColor" if is_update else COLOURS[each.mini_batch % len(COLOURS)]
    text = (
        "weight update" if is_update else f"{each.label}, mini-batch {each.mini_batch}"
    )
    digits = "" if is_update else str(each.mini_batch)
    milliseconds = (each.end_ns - each.start_ns) / 1e6
    drawn = (
        f'<rect x="{x:.2f}" y="{y + 2}" width="{max(0.5, width):.2f}" '
        f'height="{ROW - 4}" fill="{colour}"><title>{text}: {milliseconds:.3f} ms'
        "</title></rect>"
    )
    if not digits or width < len(digits) * CHARACTER + 3:
        return drawn
    style = 'fill="#fff" text-anchor="middle"'
    return drawn + _words(x + width / 2, y + 17, digits, style)


def _ruler(whole_ns: float, scale: float, y: int) -> list[str]:
    """Draws the time axis: marks at round times."""
    power = 10.0 ** math.floor(math.log10(whole_ns / 1e6))
    most = 4 if scale * whole_ns < 400 else 8
    steps = (power * part for part in (0.1, 0.2, 0.5, 1, 2, 5))
    step = next(each for each in steps if whole_ns / 1e6 / each <= most)
    parts = []
    for number in range(math.floor(whole_ns / 1e6 / step + 1e-9) + 1):
        x = NAMES + number * step * 1e6 * scale
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{y + 4}" '
            'stroke="currentColor" stroke-opacity=".3"/>'
        )
        parts.append(_words(x, y + 18, f"{number * step:g}", 'text-anchor="middle"'))
    parts.append(_words(EDGE, y + 18, "ms"))
    return parts


def _words(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{html.escape(text)}</text>'
