"""Where a curve bends, as sentences.

A curve is cut where its kind changes on two logarithmic axes: it falls, is flat, or grows.
A step is flat if the quartiles of its ends overlap, or the change is less than a fifth.
"""

import itertools
import math
from dataclasses import dataclass

from benchmarks.peers import number
from benchmarks.scaling import Axis, Curve

FLAT = 1.2  # ratios of neighbours below this are flat
# So are ratios below MOST_FLAT if the slope is below FLAT_POWER: of points far apart.
FLAT_POWER, MOST_FLAT = 0.25, 1.5
PROPORTIONAL = (0.8, 1.25)  # slopes that are called proportional


@dataclass(frozen=True)
class Segment:
    """A part of a curve of one kind.

    Attributes:
        kind: "falls", "flat" or "grows".
        begin: The amount of work where it begins.
        end: The amount of work where it ends.
        power: The slope from begin to end on logarithmic axes; 1: in proportion.
    """

    kind: str
    begin: float
    end: float
    power: float


def segments(curve: Curve) -> list[Segment]:
    """Returns the parts of a curve, from the least work; none for a single point."""
    steps = [(kind(curve, a, b), a, b) for a, b in itertools.pairwise(curve.xs)]
    found = []
    for name, group in itertools.groupby(steps, key=lambda step: step[0]):
        parts = list(group)
        begin, end = parts[0][1], parts[-1][2]
        found.append(Segment(name, begin, end, power(curve, begin, end)))
    return found


def power(curve: Curve, begin: float, end: float) -> float:
    """Returns the slope between two points on logarithmic axes."""
    return math.log(curve.median(end) / curve.median(begin)) / math.log(end / begin)


def within(ratio: float, factor: float) -> bool:
    """Whether a ratio is nearer to 1 than this factor, above or below."""
    return 1 / factor < ratio < factor


def kind(curve: Curve, a: float, b: float) -> str:
    """Returns whether a curve "falls", is "flat" or "grows" from a point to the next."""
    ratio = curve.median(b) / curve.median(a)
    (low_a, high_a), (low_b, high_b) = curve.quartiles(a), curve.quartiles(b)
    overlap = low_a <= high_b and low_b <= high_a
    small = within(ratio, FLAT) or (
        within(ratio, MOST_FLAT) and abs(power(curve, a, b)) < FLAT_POWER
    )
    if overlap or small:
        return "flat"
    return "grows" if ratio > 1 else "falls"


def sentences(axis: Axis) -> list[str]:
    """Returns a sentence for each part of each plotted curve, and the axis's findings."""
    found = []
    for curve in axis.plotted:
        for index, segment in enumerate(segments(curve)):
            found.append(sentence(axis, curve, segment, index > 0))
    return [*found, *axis.findings]


def sentence(axis: Axis, curve: Curve, segment: Segment, bend: bool) -> str:
    """Describes a part: its growth, its ends, and the reason if that is known."""
    begin, end = axis.amount(segment.begin), axis.amount(segment.end)
    name = f"{curve.what}, bend at {begin}" if bend else curve.what
    if segment.kind == "flat":
        values = [
            curve.median(x) for x in curve.xs if segment.begin <= x <= segment.end
        ]
        low, high = number(min(values)), number(max(values))
        does = f"stays at {low} to {high} {curve.unit}"
    else:
        first, last = (number(curve.median(x)) for x in (segment.begin, segment.end))
        does = f"{pace(segment)} the {axis.work}, {first} to {last} {curve.unit}"
    text = f"{name}: from {begin} to {end} it {does}"
    busy = busy_cpus(axis, curve, segment.end)
    if busy is not None:
        text += f" ({busy:.1f} CPUs busy at {end})"
    reason = axis.reasons.get((curve.what, segment.kind))
    return f"{text}: {reason}." if reason else f"{text}."


def pace(segment: Segment) -> str:
    """Describes how a part of a curve grows or falls."""
    low, high = PROPORTIONAL
    how = abs(segment.power)
    if segment.kind == "falls":
        return "falls in proportion to" if low <= how <= high else "falls with"
    if how < low:
        return "grows more slowly than"
    return "grows in proportion to" if how <= high else "grows faster than"


def busy_cpus(axis: Axis, curve: Curve, x: float) -> float | None:
    """Returns CPU time by wall time of a way; None if no CPU time was measured."""
    for other in axis.curves:
        if (other.what, other.figure, curve.figure) == (curve.what, "CPU", "wall"):
            return other.median(x) / curve.median(x)
    return None
