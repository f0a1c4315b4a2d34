"""How costs grow with the work: `python -m benchmarks.scaling`.

    components   tensors of an element, 1 to 64
    bytes        of an element, 64 B to 64 MiB
    depth        of an infeed's ring, 1 to 255
    replicas     of a program, 1 to 16
    stages       of a pipeline, 1 to 8
    workers      of tf.data service, 1 to 4
    elements     of a run, 10^3 to 10^7
    memory       of an infeed's ring, by depth and bytes of an element

Each is a module of `axes`, and runs in a process of its own. All points of an axis are
measured alternately, `repeats` times; a figure is the median with the quartiles. The
sentences about bends are made from the figures (`bends`). --write makes
docs/performance/scaling.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

KIB = 1024.0


@dataclass(frozen=True)
class Curve:
    """One figure of one way, at each point of the axis.

    Attributes:
        what: The way: what was run.
        figure: What was measured of it: "wall", "CPU", "memory", ...
        unit: The unit of the values.
        points: The values of all repeats, by the amount of work.
    """

    what: str
    figure: str
    unit: str
    points: Mapping[float, tuple[float, ...]]

    @property
    def xs(self) -> list[float]:
        """The amounts of work, from the least."""
        return sorted(self.points)

    def median(self, x: float) -> float:
        """Returns the median of the repeats at an amount of work."""
        return float(np.median(self.points[x]))

    def quartiles(self, x: float) -> tuple[float, float]:
        """Returns the lower and the upper quartile of the repeats."""
        low, high = np.percentile(self.points[x], [25, 75])
        return float(low), float(high)


@dataclass(frozen=True)
class Axis:
    """What was measured as one amount of work grew.

    Attributes:
        title: The title of the table and the plot.
        about: What was run and measured, in a few sentences.
        work: The name of what grows, in the plural: "components", "bytes of an element".
        curves: Those of one way follow each other. The plot has those of the first figure.
        reasons: Why a way behaves so, by (what, kind of `bends.Segment`).
        findings: Sentences that the axis has made from its figures.
    """

    title: str
    about: str
    work: str
    curves: Sequence[Curve]
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    findings: Sequence[str] = ()

    @property
    def plotted(self) -> list[Curve]:
        """The curves of the first figure."""
        figure = self.curves[0].figure
        return [curve for curve in self.curves if curve.figure == figure]

    def amount(self, x: float) -> str:
        """Returns the text of an amount of work."""
        return size(x) if self.work.startswith("bytes") else f"{x:,.0f}"


def size(count: float) -> str:
    """Returns the text of a number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if count < KIB:
            return f"{count:.3g} {unit}"
        count /= KIB
    return f"{count:.3g} GiB"
