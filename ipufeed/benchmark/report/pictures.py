"""The charts of a report, each from the JSON of a result.

A chart is drawn for a width in pixels; it is "" if the result has nothing for it. The JSON
can come from anywhere: a value that is not a number counts as 0.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from ipufeed.render.svg import (
    BLUE,
    CHARACTER,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    Axes,
    legend,
    log_ticks,
    round_ticks,
    svg,
    words,
)
from ipufeed.render.text import (
    JsonObject,
    count,
    escaped,
    finite,
    part,
    rows_of,
    seconds,
    short,
)

# The parts of a run: colour, opacity, label.
PARTS = {
    "startup": (GREY, 0.35, "start-up"),
    "fill": (ORANGE, 0.25, "fill"),
    "steady": (GREEN, 0.14, "steady state"),
    "drain": (PURPLE, 0.25, "drain"),
    "stalled": (GREY, 0.35, "nothing came"),
}
# Rates above this multiple of the steady rate are cut off, so that the rest stays visible.
HIGHEST = 3.0
MOST_STAGES = 30
# With a lower mean depth in every window, the chart of the queue would be empty.
LEAST_DEPTH = 0.05
# The axis of the times between elements ends at least at this multiple of its start.
LEAST_RANGE = 2.0
# A chart of at most this width has only short labels next to a line.
NARROW_PX = 500
# The AU that MLPerf Storage requires of most of its jobs.
USUAL_BAR = 0.9
UNITS = (
    (3600.0, "hours"),
    (60.0, "minutes"),
    (1.0, "seconds"),
    (1e-3, "ms"),
    (1e-6, "µs"),
)


@dataclass(frozen=True)
class Series:
    """`series` of a result, as lists of numbers.

    Attributes:
        edges: Seconds since the request; one more than there are windows.
        rates: Elements per second in each window.
        parts: Part of the run of each window.
        starved: Fraction of each window in which the consumer waited.
        blocked: Fraction of each window in which the dataset waited.
        depths: Elements in the queue.
    """

    edges: list[float]
    rates: list[float]
    parts: list[str]
    starved: list[float]
    blocked: list[float]
    depths: list[float]

    @property
    def end(self) -> float:
        """The end of the run, in seconds since the request."""
        return self.edges[-1]

    def stretches(self) -> list[tuple[str, float, float]]:
        """Returns runs of windows of the same part: name, begin, end."""
        found: list[tuple[str, float, float]] = []
        for name, begin, end in zip(
            self.parts, self.edges[:-1], self.edges[1:], strict=True
        ):
            if found and found[-1][0] == name:
                found[-1] = (name, found[-1][1], end)
            else:
                found.append((name, begin, end))
        return found


def series_of(result: JsonObject) -> Series | None:
    """Returns the series of a result; None for a result of an older version without one."""
    series = part(result, "series")
    columns = ("seconds", "elements", "starved_share", "blocked_share", "queue_depth")
    lists = [series.get(name) for name in columns]
    found = [each if isinstance(each, list) else [] for each in lists]
    names = series.get("part")
    names = names if isinstance(names, list) else []
    rows = min(len(names), *map(len, found))
    if rows == 0:
        return None
    widths, elements, starved, blocked, depths = (
        [max(0.0, finite(value)) for value in column[:rows]] for column in found
    )
    edges = [0.0]
    for width in widths:
        edges.append(edges[-1] + width)
    rates = [
        n / width if width else 0.0 for n, width in zip(elements, widths, strict=True)
    ]
    parts = [str(name) if str(name) in PARTS else "steady" for name in names[:rows]]
    return Series(edges, rates, parts, starved, blocked, depths)


def is_in_a_loop(result: JsonObject) -> bool:
    """Whether a Python loop took a loader's elements, without a queue."""
    return bool(part(result, "dataset").get("loader")) and not part(result, "links")


def rate_picture(result: JsonObject, width: int) -> str:
    """Elements per second over time, with the parts of the run shaded."""
    series = series_of(result)
    if series is None or not series.end > 0:
        return ""
    steady = finite(part(result, "steady").get("elements_per_second"))
    fastest = max(series.rates)
    highest = min(fastest, HIGHEST * steady) if steady else fastest
    entries = [PARTS[name] for name in PARTS if name in series.parts]
    key, top = legend(
        [(colour, text, opacity) for colour, opacity, text in entries], width
    )
    axes = Axes(
        "Elements per second over time",
        width,
        230 + top,
        (0.0, series.end),
        (0.0, highest * 1.12 or 1.0),
        top=top,
    )
    axes.parts.append(key)
    for name, begin, end in series.stretches():
        colour, opacity, _ = PARTS[name]
        axes.shade(begin, end, colour, opacity)
    interval = part(result, "steady").get("interval")
    if isinstance(interval, list) and len(interval) == 2 and steady:
        axes.band(finite(interval[0]), finite(interval[1]), BLUE)
    axes.y_ticks([(y, _figure(y)) for y in round_ticks(*axes.y, 5)])
    axes.steps(series.edges, series.rates, BLUE)
    if steady:
        axes.level(steady)
    if fastest > axes.y[1]:
        axes.parts.append(
            words(axes.right - 4, top + 14, f"up to {_figure(fastest)}/s", "end")
        )
    _time_axis(axes, series.end)
    return axes.svg()


def waits_picture(result: JsonObject, width: int) -> str:
    """Returns the fractions of the time in which each side waited, over time."""
    series = series_of(result)
    if series is None or not series.end > 0:
        return ""
    through = bool(part(result, "links"))
    loop = is_in_a_loop(result)
    key, top = legend(
        [
            (ORANGE, "the program waited" if through else "the consumer waited", 1),
            (PURPLE, "the consumer worked" if loop else "the dataset waited", 1),
        ],
        width,
    )
    axes = Axes(
        "Fraction of the time in which each side waited for the other",
        width,
        150 + top,
        (0.0, series.end),
        (0.0, 1.0),
        top=top,
    )
    axes.parts.append(key)
    axes.y_ticks([(y / 100, f"{y} %") for y in (0, 50, 100)])
    axes.steps(series.edges, series.starved, ORANGE, fill=True)
    axes.steps(series.edges, series.blocked, PURPLE, fill=True)
    _time_axis(axes, series.end)
    return axes.svg()


def depth_picture(result: JsonObject, width: int) -> str:
    """Elements in the queue over time; "" for a queue that was always empty."""
    series = series_of(result)
    if series is None or not series.end > 0 or max(series.depths) < LEAST_DEPTH:
        return ""
    capacity = finite(part(result, "queue").get("capacity"))
    deepest = max(series.depths)
    # The capacity is only in the range if a quarter of it was used.
    shown = max(1.0, capacity if deepest * 4 >= capacity else deepest)
    axes = Axes(
        "Elements in the queue over time",
        width,
        150,
        (0.0, series.end),
        (0.0, shown * 1.1),
    )
    axes.y_ticks([(y, _figure(y)) for y in round_ticks(*axes.y, 4)])
    axes.steps(series.edges, series.depths, GREEN, fill=True)
    if shown == capacity:
        axes.level(capacity)
    _time_axis(axes, series.end)
    return axes.svg()


def histogram_picture(result: JsonObject, width: int) -> str:
    """Frequencies of the times between two elements, on a logarithmic axis."""
    latency = part(result, "latency")
    held = part(latency, "histogram")
    edges = [finite(edge) for edge in held.get("edges") or [] if finite(edge) > 0]
    counts = [max(0.0, finite(each)) for each in held.get("counts") or []]
    if not counts or len(edges) != len(counts) + 1 or not edges[-1] > edges[0]:
        return ""
    if edges != sorted(edges):
        return ""
    # Times that hardly differ stand in the middle, as a narrow bar.
    margin = max(1.0, LEAST_RANGE / (edges[-1] / edges[0])) ** 0.5
    axes = Axes(
        "Times between elements: how often each came",
        width,
        250,
        (edges[0] / margin, edges[-1] * margin),
        (0.0, max(counts) * 1.35 or 1.0),
        log_x=True,
        top=10,
    )
    axes.y_ticks([(y, _figure(y)) for y in round_ticks(*axes.y, 5) if y == int(y)])
    for begin, end, value in zip(edges[:-1], edges[1:], counts, strict=True):
        if value:
            axes.bar(begin, end, value, BLUE)
    for row, name in enumerate(("max", "p99", "p50")):
        value = finite(latency.get(name))
        if value > 0:
            axes.upright(value, f"{name} {seconds(value / 1e9)}", 16 * row)
    ticks = [(tick, seconds(tick / 1e9)) for tick in log_ticks(*axes.x)]
    axes.x_ticks(ticks, "time between two elements")
    return axes.svg()


def _fitting(text: str, pixels: float) -> str:
    """Returns the part of a text that fits, by estimated widths of characters."""
    for place, character in enumerate(text):
        wide = unicodedata.east_asian_width(character) in "WF"
        capital = character.isupper() or character in "@%"
        pixels -= CHARACTER * (2.0 if wide else 1.5 if capital else 1.0)
        if pixels < 0:
            return text[: max(1, place - 1)] + "…"
    return text


def stage_picture(result: JsonObject, width: int) -> str:
    """Returns a bar for each stage: its share of the wall time."""
    stages = rows_of(result, "stages")[:MOST_STAGES]
    if not stages:
        return ""
    row, parts = 40, []
    room = width - 8
    for place, stage in enumerate(stages):
        y = place * row + 14
        share = min(1.0, max(0.0, finite(stage.get("share"))))
        cost = stage.get("seconds_per_element")
        figures = f"{share:.0%}" + (f", {seconds(cost)}" if finite(cost) else "")
        name, kind = str(stage.get("name", "")), str(stage.get("kind", ""))
        title = name if not kind or kind == name else f"{name} ({kind})"
        left = room - (len(figures) + 3) * CHARACTER
        parts.append(
            f"<g><title>{escaped(short(title, 300))}</title>"
            f"{words(4, y, _fitting(short(title, 300), left))}"
            f"{words(width - 4, y, figures, 'end')}"
            f'<rect x="4" y="{y + 6}" width="{room}" height="12" rx="2" '
            'fill-opacity=".12"/>'
            f'<rect x="4" y="{y + 6}" width="{max(1.0, share * room):.1f}" height="12" '
            f'rx="2" fill="{BLUE if place else ORANGE}"/></g>'
        )
    return svg("Where the time goes, by stage", width, len(stages) * row + 4, parts)


def au_picture(result: JsonObject, width: int) -> str:
    """Accelerator utilisation for steps of several lengths."""
    device = part(result, "device")
    points = [
        (finite(each.get("step_seconds")), finite(each.get("au")))
        for each in rows_of(device, "knee")
    ]
    points = sorted((x, min(1.0, max(0.0, y))) for x, y in points if x > 0)
    if len(points) < 2 or not points[-1][0] > points[0][0]:
        return ""
    low, high = points[0][0] / 1.15, points[-1][0] * 1.15
    axes = Axes(
        "Accelerator utilisation for steps of several lengths",
        width,
        250,
        (low, high),
        (0.0, 1.08),
        log_x=True,
    )
    axes.y_ticks([(y / 100, f"{y} %") for y in range(0, 101, 25)])
    bar = finite(device.get("bar")) or USUAL_BAR
    axes.level(bar)
    axes.parts.append(
        words(axes.left + 6, axes.at_y(bar) - 5, f"{bar:.0%}", quiet=True)
    )
    axes.line(points, BLUE)
    rate = finite(part(result, "steady").get("elements_per_second"))
    period = finite(device.get("period_seconds")) or (1 / rate if rate > 0 else 0.0)
    if low <= period <= high:
        every = "an element every" if width > NARROW_PX else "every"
        axes.upright(period, f"{every} {seconds(period)}")
    ticks = [(tick, seconds(tick)) for tick in log_ticks(low, high)]
    axes.x_ticks(ticks, "time that the accelerator takes for a step")
    return axes.svg()


def _time_axis(axes: Axes, end: float) -> None:
    """Draws the time since the request of the iterator, in the unit that fits."""
    scale, unit = next((each for each in UNITS if end >= 2 * each[0]), UNITS[-1])
    ticks = round_ticks(0.0, end / scale, max(3, axes.width // 90))
    axes.x_ticks(
        [(tick * scale, f"{tick:.6g}") for tick in ticks],
        f"{unit} since the request of the iterator",
    )


def _figure(value: float) -> str:
    """Returns the label of a tick: `1.2 k` for 1200."""
    if value and abs(value) < 1:
        return f"{value:.2g}"
    return count(value) if math.isfinite(value) else ""
