"""Draws a timeline: a row for each stage, time from left to right, what is idle is grey.

It stands alone, in a light or a dark page: words and lines have the colour of the text
around them, all others enough contrast on white and on black. It has as many pixels as its
width needs, since text that is scaled cannot be read.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from typing import Protocol

from ipufeed.parallel.pipeline import schedules
from ipufeed.parallel.timelines.slices import UPDATE, Execution, Slice, Utilisation

# Of mini-batches, in rotation: white digits can be read on each.
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
FONT, CHARACTER = 12, 6.8  # pixels; of a digit or a small letter
ROW, TOP, FOOT = 26, 58, 40
NAMES, SHARES = 94, 112  # pixels of the columns left and right of the rows
EDGE = 8


class Timeline(Protocol):
    """What is drawn, as parallel.timelines.timeline.Timeline has it."""

    executions: list[Execution]

    @property
    def start_ns(self) -> int:
        """When the first stage began, on the monotonic clock."""

    @property
    def end_ns(self) -> int:
        """When the last stage ended."""

    def rows(self) -> dict[str, list[Slice]]:
        """The slices of each stage, by a name of it."""

    def utilisation(self) -> dict[int, Utilisation]:
        """The share of the time of each IPU."""


def draw(timeline: Timeline, width: int, whole_ms: float | None) -> str:
    """The SVG; the arguments are those of `Timeline.to_svg`."""
    rows = timeline.rows()
    height = TOP + ROW * len(rows) + FOOT
    own = max(1, timeline.end_ns - timeline.start_ns)
    # An update behind the last stage has its place, too.
    last = max(each.end_ns for row in rows.values() for each in row)
    whole = max(own, last - timeline.start_ns)
    if whole_ms is not None:
        whole = max(whole, round(whole_ms * 1e6))
    shares = timeline.utilisation()
    room = width - NAMES - SHARES
    scale = room / whole
    shown = ", ".join(f"IPU {ipu} {share}" for ipu, share in shares.items())
    title = f"{heading(timeline)}. At work, and at best: {shown}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{FONT}" fill="currentColor">',
        f"<title>{html.escape(title)}</title>{STYLE}",
        words(EDGE, 18, heading(timeline), 'font-weight="600"'),
        words(
            EDGE, 34, f"in {own / 1e6:.1f} ms. A colour is a mini-batch, grey is idle."
        ),
        words(width - EDGE, 52, "at work (ideal)", 'text-anchor="end"'),
    ]
    parts += ruler(whole, scale, TOP + ROW * len(rows))
    ipu = None
    for number, (name, slices) in enumerate(rows.items()):
        y = TOP + number * ROW
        parts.append(words(EDGE, y + 17, name))
        if slices[0].label != UPDATE and slices[0].ipu != ipu:
            ipu = slices[0].ipu
            share = str(shares[ipu])
            parts.append(words(width - EDGE, y + 17, share, 'text-anchor="end"'))
        parts.append(
            f'<rect x="{NAMES}" y="{y + 2}" width="{room}" height="{ROW - 4}" '
            f'fill="{GREY}" fill-opacity=".22"/>'
        )
        for each in slices:
            x = NAMES + (each.start_ns - timeline.start_ns) * scale
            parts.append(block(each, x, (each.end_ns - each.start_ns) * scale, y))
    return "\n".join([*parts, "</svg>", ""])


def heading(timeline: Timeline) -> str:
    """Which pipelines it shows, as far as that is one kind."""
    found = {each.schedule for each in timeline.executions}
    text = next(iter(found)) if len(found) == 1 else ""
    if schedules.read(text) is None:
        return "Stages of a pipeline"
    copies = Counter(each.first_ipu for each in timeline.executions)
    executions = max(copies.values())
    times = f" in each of {executions} executions" if executions > 1 else ""
    what = text.partition(", stages")[0]
    return re.sub(r"\b1 mini-batches", "1 mini-batch", what) + times


def block(each: Slice, x: float, width: float, y: int) -> str:
    """A slice, with its number if there is room."""
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
    look = 'fill="#fff" text-anchor="middle"'
    return drawn + words(x + width / 2, y + 17, digits, look)


def ruler(whole_ns: float, scale: float, y: int) -> list[str]:
    """Marks below the rows at round times."""
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
        parts.append(words(x, y + 18, f"{number * step:g}", 'text-anchor="middle"'))
    parts.append(words(EDGE, y + 18, "ms"))
    return parts


def words(x: float, y: float, text: str, look: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{html.escape(text)}</text>'
