"""ipufeed and its peers in one run: `python -m benchmarks.peers`.

    iteration   the same tf.data pipeline, in the ways that programs iterate one
    images      the same JPEG files and the same job, in four frameworks
    queues      from one thread to another, in Python, TensorFlow and C++

All of a group are measured alternately, `repeats` times; a figure is the median with the
quartiles. What is not installed is reported, and left out. --write makes
docs/performance.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One peer's figure.

    Attributes:
        peer: Its name.
        what: What was measured of it: "wall", "CPU", ...
        unit: The unit of the values.
        values: One of each repeat.
    """

    peer: str
    what: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the repeats."""
        return float(np.median(self.values))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the repeats."""
        low, high = np.percentile(self.values, [25, 75])
        return float(low), float(high)


@dataclass(frozen=True)
class Group:
    """What was measured side by side.

    Attributes:
        title: The title of the table.
        about: How it was measured, in a few sentences.
        figures: In the order of the table; those of one peer follow each other.
        missing: What is not installed, and what of the group it takes away.
    """

    title: str
    about: str
    figures: Sequence[Figure]
    missing: Sequence[str] = ()


def number(value: float) -> str:
    """Returns the text of a number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.2e}"
