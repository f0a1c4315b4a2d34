"""Draws charts as SVG: two axes, ticks, lines, areas, bars, labels.

Text and lines take the colour of the surrounding text (`currentColor`), and all other
colours have enough contrast on white and on black, so that one picture serves a light page,
a dark one, paper and a notebook. Its width is in pixels, since scaled text cannot be read:
a page for narrow and wide screens draws it twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ipufeed.render.text import escaped, short

BLUE, ORANGE, PURPLE, GREEN, GREY = (
    "#3b82c4",
    "#cf7229",
    "#8f67cc",
    "#2a9a8c",
    "#8a8a92",
)
FONT = 13
CHARACTER = 7.2  # mean width in the widest usual fonts at that size
LEFT, RIGHT, FOOT = 62, 14, 42
FROM_AXIS = 24  # least space between the axis and a label left of its line


@dataclass
class Axes:
    """A picture with a horizontal and a vertical axis; parts are drawn in order.

    Attributes:
        title: Description for screen readers.
        width: Pixels.
        height: Pixels.
        x: Range; above 0 for log_x.
        y: Range.
        log_x: Whether the horizontal axis is logarithmic.
        top: Pixels above the axes, for a legend.
    """

    title: str
    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    top: int = 10
    left: int = LEFT
    parts: list[str] = field(default_factory=list)

    @property
    def right(self) -> int:
        """The right end of the horizontal axis, in pixels."""
        return self.width - RIGHT

    @property
    def bottom(self) -> int:
        """The position of the horizontal axis, in pixels."""
        return self.height - FOOT

    def at_x(self, value: float) -> float:
        """Returns the horizontal position of a value in pixels, clamped to the axis."""
        low, high = self.x
        if self.log_x:
            low, high, value = (
                math.log10(low),
                math.log10(high),
                math.log10(max(value, low)),
            )
        place = (value - low) / (high - low) if high > low else 0.0
        return self.left + min(1.0, max(0.0, place)) * (self.right - self.left)

    def at_y(self, value: float) -> float:
        """Returns the vertical position of a value in pixels, clamped to the axis."""
        low, high = self.y
        place = (value - low) / (high - low) if high > low else 0.0
        return self.bottom - min(1.0, max(0.0, place)) * (self.bottom - self.top)

    def shade(self, begin: float, end: float, colour: str, opacity: float) -> None:
        """Shades a range of the horizontal axis."""
        left, right = self.at_x(begin), self.at_x(end)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{self.top}" width="{max(1.0, right - left):.1f}" '
            f'height="{self.bottom - self.top}" fill="{colour}" '
            f'fill-opacity="{opacity}"/>'
        )

    def band(self, low: float, high: float, colour: str) -> None:
        """Shades a range of the vertical axis."""
        top, bottom = self.at_y(high), self.at_y(low)
        self.parts.append(
            f'<rect x="{self.left}" y="{top:.1f}" width="{self.right - self.left}" '
            f'height="{max(1.0, bottom - top):.1f}" fill="{colour}" fill-opacity=".3"/>'
        )

    def steps(
        self,
        edges: Sequence[float],
        values: Sequence[float],
        colour: str,
        fill: bool = False,
    ) -> None:
        """Draws a step line: `values[i]` between `edges[i]` and `edges[i + 1]`."""
        path: list[str] = []
        last = ""
        for begin, end, value in zip(edges[:-1], edges[1:], values, strict=True):
            height = f"{self.at_y(value):.1f}"
            if height != last:
                command = "V" if path else f"M{self.at_x(begin):.1f} "
                path.append(f"{command}{height}")
            path.append(f"H{self.at_x(end):.1f}")
            last = height
        line = "".join(path)
        if fill and line:
            base = f"{self.at_y(self.y[0]):.1f}"
            self.parts.append(
                f'<path d="{line}V{base}H{self.at_x(edges[0]):.1f}Z" fill="{colour}" '
                'fill-opacity=".25"/>'
            )
        self.parts.append(
            f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.5" '
            'stroke-linejoin="round"/>'
        )

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Draws straight lines between points, and a dot at each."""
        places = [(self.at_x(x), self.at_y(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        self.parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
            for x, y in places
        ]

    def bar(self, begin: float, end: float, value: float, colour: str) -> None:
        """Draws a bar, at least a pixel high so that it is visible."""
        left, right, top = self.at_x(begin), self.at_x(end), self.at_y(value)
        top = min(top, self.bottom - 1.5)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(1.0, right - left):.1f}" '
            f'height="{self.bottom - top:.1f}" fill="{colour}"/>'
        )

    def level(self, value: float, colour: str = "currentColor") -> None:
        """Draws a dashed horizontal line."""
        y = self.at_y(value)
        self.parts.append(
            f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-dasharray="5 4"/>'
        )

    def upright(self, value: float, text: str, below: int = 0) -> None:
        """Draws a dashed vertical line with a label at its left end.

        Args:
            value: Position on the horizontal axis.
            text: The label.
            below: Pixels from the top. With several lines side by side, give those further
                right a smaller value, so that no line crosses a label.
        """
        x, y = self.at_x(value), self.top + 12 + below
        room = len(text) * CHARACTER + 4
        head, anchor, place = y - 11, "start", x + 4
        # Fonts differ in width, and the axis has labels of its own.
        if x - room > self.left + FROM_AXIS:
            anchor, place = "end", x - 4
        elif x + room > self.width:  # too long for either side: above the line
            head, place = y + 4, max(self.left + 4.0, self.width - room)
        self.parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{head}" y2="{self.bottom}" '
            'stroke="currentColor" stroke-dasharray="3 3"/>'
        )
        self.parts.append(words(place, y, text, anchor))

    def x_ticks(self, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Draws ticks, with the labels that fit, and the name of the axis."""
        free = -math.inf
        for value, text in ticks:
            if not self.x[0] <= value <= self.x[1]:
                continue
            x, half = self.at_x(value), len(text) * CHARACTER / 2
            # The last label may be at the end of the axis, and must not be cut off.
            middle = min(max(x, half), self.width - half - 1)
            self.parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.bottom}" '
                f'y2="{self.bottom + 4}" stroke="currentColor"/>'
            )
            if middle - half < free:
                continue
            free = middle + half + CHARACTER
            self.parts.append(words(middle, self.bottom + 17, text, "middle"))
        middle = (self.left + self.right) / 2
        self.parts.append(words(middle, self.height - 6, name, "middle", quiet=True))

    def y_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Draws ticks with labels, and a grid line at each."""
        for value, text in ticks:
            y = self.at_y(value)
            self.parts.append(
                f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" '
                'stroke="currentColor" stroke-opacity=".18"/>'
            )
            self.parts.append(words(self.left - 6, y + 4, text, "end"))

    def svg(self) -> str:
        """Returns the picture as an SVG element."""
        frame = (
            f'<path d="M{self.left} {self.top}V{self.bottom}H{self.right}" fill="none" '
            'stroke="currentColor"/>'
        )
        return svg(self.title, self.width, self.height, [*self.parts, frame])


def svg(title: str, width: int, height: float, parts: Sequence[str]) -> str:
    """Returns an SVG element that can be part of HTML or a file of its own."""
    name = escaped(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" '
        f'width="{width}" height="{height:.0f}" role="img" aria-label="{name}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT}" fill="currentColor">'
        f"<title>{name}</title>{''.join(parts)}</svg>"
    )


def words(
    x: float, y: float, text: str, anchor: str = "start", quiet: bool = False
) -> str:
    """Returns a line of text."""
    look = ' fill-opacity=".75"' if quiet else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>'
        f"{escaped(text)}</text>"
    )


def legend(entries: Sequence[tuple[str, str, float]], width: int) -> tuple[str, int]:
    """Returns a legend of (colour, text, opacity), and its height in pixels."""
    parts, x, y = [], float(LEFT), 6
    for colour, text, opacity in entries:
        wide = 18 + len(text) * CHARACTER + 16
        if x > LEFT and x + wide > width:
            x, y = float(LEFT), y + 18
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="12" height="12" rx="2" '
            f'fill="{colour}" fill-opacity="{opacity}"/>'
            f"{words(x + 18, y + 10.5, short(text, 60))}"
        )
        x += wide
    return "".join(parts), y + 24 if entries else 10


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns round numbers in a range: multiples of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    raw = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Returns round numbers for a logarithmic axis: powers of ten, or more if few fit."""
    decades = math.log10(high / low)
    if decades < 0.5:
        return round_ticks(low, high, 6)
    factors = (1, 2, 5) if decades < 4 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]
