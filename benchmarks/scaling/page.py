"""docs/performance/scaling.md: a table, a plot and the bends of each axis."""

import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.machine import with_machine
from benchmarks.peers import number
from benchmarks.scaling import Axis
from benchmarks.scaling.bends import sentences
from ipufeed.render.svg import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    Axes,
    legend,
    log_ticks,
)

HEAD = """# How costs grow with the work

`python -m benchmarks.scaling --write` has measured and written all of this page on {date}:
{cpu}, {cpus} CPUs, {memory:.0f} GiB, Linux {kernel}, Python {python},
TensorFlow {tensorflow}. All points of a table were measured alternately; figures are
medians with the quartiles of the repeats. The sentences are made from the figures: a bend
is where a curve begins to grow, to fall, or to do neither, on logarithmic axes.
"""
WIDTH, HEIGHT = 760, 320
COLOURS = (BLUE, ORANGE, PURPLE, GREEN)


def table(axis: Axis) -> str:
    """Returns an axis as Markdown, which can also be read as it is."""
    lines = [
        f"| {axis.work} | | figure | median | quartiles | repeats |",
        "|---:|---|---|---|---|---|",
    ]
    for x in sorted({x for curve in axis.curves for x in curve.xs}):
        for curve in axis.curves:
            if x not in curve.points:
                continue
            low, high = curve.quartiles(x)
            lines.append(
                f"| {axis.amount(x)} | {curve.what} | {curve.figure} "
                f"| {number(curve.median(x))} {curve.unit} "
                f"| {number(low)} to {number(high)} | {len(curve.points[x])} |"
            )
    return "\n".join(lines)


def picture(axis: Axis) -> str:
    """Returns the plot of the axis's first figure as SVG, on logarithmic axes."""
    shown = axis.plotted
    xs = [x for curve in shown for x in curve.xs]
    ys = [curve.median(x) for curve in shown for x in curve.xs]
    low, high = min(ys) / 1.5, max(ys) * 1.5
    entries = [
        (colour, curve.what, 1.0) for colour, curve in zip(COLOURS, shown, strict=False)
    ]
    names, top = legend(entries, WIDTH)
    figure, unit = shown[0].figure, shown[0].unit
    axes = Axes(
        f"{axis.title}: {figure} in {unit} by {axis.work}",
        WIDTH,
        HEIGHT,
        (min(xs), max(xs) if len(set(xs)) > 1 else min(xs) * 2),
        (math.log10(low), math.log10(high)),
        log_x=True,
        top=top + 18,
    )
    axes.parts.append(names)
    axes.parts.append(
        f'<text x="4" y="{top + 10}" fill-opacity=".75">{figure}, {unit}</text>'
    )
    axes.y_ticks([(math.log10(y), number(y)) for y in log_ticks(low, high)])
    axes.x_ticks([(x, axis.amount(x)) for x in sorted(set(xs))], axis.work)
    for colour, curve in zip(COLOURS, shown, strict=False):
        points = [(x, math.log10(curve.median(x))) for x in curve.xs]
        axes.line(points, colour)
    return axes.svg() + "\n"


def page(path: Path, axes: Mapping[str, Axis]) -> None:
    """Writes the page, and next to it `scaling-NAME.svg` of each axis."""
    parts = [with_machine(HEAD)]
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, axis in axes.items():
        plot = f"scaling-{name}.svg"
        (path.parent / plot).write_text(picture(axis))
        parts.append(f"## {axis.title}\n\n{axis.about}\n")
        parts.append("\n".join(f"- {line}" for line in sentences(axis)) + "\n")
        parts.append(f"![{axis.title}]({plot})\n")
        parts.append(table(axis) + "\n")
    path.write_text("\n".join(parts).rstrip() + "\n")
