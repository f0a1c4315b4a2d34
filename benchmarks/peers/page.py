"""docs/performance.md: the tables and pictures, with machine and date."""

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import with_machine
from benchmarks.peers import Group, number
from ipufeed.parallel.timelines.svg import STYLE
from ipufeed.render.svg import svg

HEAD = """# Performance

`python -m benchmarks.peers --write` has measured and written all of this page on {date}:
{cpu}, {cpus} CPUs, {memory:.0f} GiB, Linux {kernel}, Python {python},
TensorFlow {tensorflow}. The rows of a table were measured alternately in one run; figures
are medians with the quartiles of the repeats. Ratios of a table are worth more than its
figures, which are this machine's. What the project promises to reach is measured by
`python -m benchmarks.targets`.
"""
ROW_HEIGHT, WIDTH, LABEL = 20, 760, 300


def table(group: Group) -> str:
    """Returns a group as Markdown, which can also be read as it is."""
    lines = [
        "| | figure | median | quartiles | repeats |",
        "|---|---|---|---|---|",
    ]
    for figure in group.figures:
        low, high = figure.quartiles
        lines.append(
            f"| {figure.peer} | {figure.what} | {number(figure.median)} {figure.unit} "
            f"| {number(low)} to {number(high)} | {len(figure.values)} |"
        )
    return "\n".join(lines)


def page(path: Path, groups: Sequence[Group]) -> None:
    """Writes the page, and a picture of each group next to the others."""
    parts = [with_machine(HEAD)]
    for group in groups:
        name = f"performance-{group.title.split()[-1].lower()}.svg"
        (path.parent / "pictures" / name).write_text(picture(group))
        parts.append(f"## {group.title}\n\n{group.about}\n")
        parts.append(f"![{group.title}](pictures/{name})\n")
        parts.append(table(group) + "\n")
        parts += [f"Not measured here: {line}\n" for line in group.missing]
    path.write_text("\n".join(parts).rstrip() + "\n")


def picture(group: Group) -> str:
    """Returns a bar for each peer's first figure, on a logarithmic scale of tens."""
    what = group.figures[0].what
    shown = [figure for figure in group.figures if figure.what == what]
    low = min(figure.median for figure in shown) / 2
    high = max(figure.median for figure in shown)
    parts = []
    for index, figure in enumerate(shown):
        top = 8 + index * ROW_HEIGHT
        length = (WIDTH - LABEL - 110) * scaled(figure.median, low, high)
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + 13}" text-anchor="end">{figure.peer}</text>'
        )
        parts.append(
            f'<rect class="series-a" x="{LABEL}" y="{top + 3}" width="{length:.1f}" '
            'height="13" fill="#4878a8"/>'
        )
        parts.append(
            f'<text x="{LABEL + length + 6:.1f}" y="{top + 13}">'
            f"{number(figure.median)} {figure.unit}</text>"
        )
    bottom = 8 + len(shown) * ROW_HEIGHT
    scale = f"{what}, on a logarithmic scale"
    parts.append(f'<text x="{LABEL}" y="{bottom + 16}">{scale}</text>')
    body = [f"<style>{STYLE}</style>", *parts]
    return svg(f"{group.title}: {scale}", WIDTH, bottom + 28, body) + "\n"


def scaled(value: float, low: float, high: float) -> float:
    """Returns the place of a value on a logarithmic axis: 0 for `low`, 1 for `high`."""
    return math.log(value / low) / math.log(high / low)
