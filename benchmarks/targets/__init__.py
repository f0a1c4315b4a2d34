"""What the project promises to reach, measured: `python -m benchmarks.targets`.

Each module beside this one measures some rows; __main__.py prints them. Ratios come from
repeats that are interleaved in one run, and each repeat gives a ratio of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One promise, and what was measured.

    Attributes:
        what: The promise in words.
        reach: The bound.
        sense: "at most" or "at least"; "" for a figure that is only reported.
        unit: Of the bound and the values.
        values: One per repeat.
    """

    what: str
    reach: float
    sense: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The measured value."""
        return float(np.median(self.values))

    @property
    def quartiles(self) -> tuple[float, float]:
        """Its spread over the repeats."""
        low, high = np.percentile(self.values, [25, 75])
        return float(low), float(high)

    @property
    def held(self) -> bool | None:
        """Whether the median keeps the promise; None where nothing was promised."""
        if self.sense == "":
            return None
        if self.sense == "at most":
            return self.median <= self.reach
        return self.median >= self.reach


def row(
    what: str, sense: str, reach: float, unit: str, values: Sequence[float]
) -> Row:
    """A row, in the order in which one would say it."""
    return Row(what, reach, sense, unit, tuple(float(value) for value in values))
