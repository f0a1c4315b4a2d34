"""Draws what `compare` found: each interval next to what the gate allows."""

from collections.abc import Mapping
from typing import Any

from ipufeed.render.svg import BLUE, GREY, ORANGE, Axes, round_ticks, words

ROW = 46
# The gate's verdicts: colour, and what they mean.
VERDICTS = {
    "held": (BLUE, "held"),
    "slower": (ORANGE, "slower"),
    "cannot tell": (GREY, "cannot tell"),
}


def gate_picture(comparisons: Mapping[str, Mapping[str, Any]], width: int) -> str:
    """A row for each comparison, by its name: the ratio, its interval, the verdict."""
    ends = [end for each in comparisons.values() for end in each["verdict_interval"]]
    allowed = 1 - next(iter(comparisons.values()))["gate"]["allowed_loss"]
    low, high = min([*ends, allowed]) - 0.02, max([*ends, 1.0]) + 0.02
    axes = Axes(
        "The gate's verdicts on three comparisons",
        width,
        len(comparisons) * ROW + 72,
        (low, high),
        (0.0, 1.0),
        top=26,
        left=12,
    )
    axes.shade(low, allowed, ORANGE, 0.14)
    axes.parts.append(
        words(axes.at_x(allowed) - 6, 18, f"more than {1 - allowed:.0%} lost", "end")
    )
    axes.upright(1.0, "as before", below=-20)
    for number, (name, each) in enumerate(comparisons.items()):
        colour, verdict = VERDICTS[each["gate"]["verdict"]]
        y = axes.top + number * ROW + 34
        begin, end = (axes.at_x(value) for value in each["verdict_interval"])
        axes.parts += [
            words(axes.left + 8, y - 14, f"{name}: {verdict}"),
            f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}" stroke-width="4" stroke-linecap="round"/>',
            f'<circle cx="{axes.at_x(each["ratio"]):.1f}" cy="{y}" r="6" '
            f'fill="{colour}"/>',
        ]
    axes.x_ticks(
        [(tick, f"{tick:.0%}") for tick in round_ticks(low, high, 6)],
        "rate of the branch, main's being 100 %: each line is where it lies with 99 %",
    )
    return axes.svg()
