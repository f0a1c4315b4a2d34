"""What the project promises to reach, measured: `python -m benchmarks.targets`.

Each other module of this package measures some rows; __main__.py prints them. What is
compared is measured in interleaved repeats of one run. A comparison is one of medians, and
its spread that of resampled repeats: tf.data's AUTOTUNE gives a pipeline one of two speeds
for a whole repeat, so that the ratio within a single repeat says little.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 999


@dataclass(frozen=True)
class Row:
    """One promise, and what was measured.

    Attributes:
        what: The promise in words.
        reach: The bound.
        sense: "at most" or "at least"; "" for a figure that is only reported.
        unit: The unit of the bound and the values.
        values: One per repeat, or per resampling of the repeats.
        repeats: Repeats that the values come from.
        slack: By which factor the machine is slower now, at what the row is made of, than
            it was when the bound was set; `--quick` fails only beyond it (speed.py).
    """

    what: str
    reach: float
    sense: str
    unit: str
    values: tuple[float, ...]
    repeats: int
    slack: float = 1.0

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


def row(what: str, sense: str, reach: float, unit: str, values: Sequence[float]) -> Row:
    """Returns a row of plain measurements, in reading order."""
    return Row(what, reach, sense, unit, tuple(map(float, values)), len(values))


def comparison(
    what: str,
    sense: str,
    reach: float,
    unit: str,
    compare: Callable[[float, float], float],
    ours: Sequence[float],
    other: Sequence[float],
) -> Row:
    """Returns a row that compares two medians; the repeats are resampled in their pairs."""
    pairs = np.array([ours, other], dtype=float)
    random = np.random.default_rng(0)
    chosen = random.integers(0, len(ours), size=(RESAMPLES, len(ours)))
    medians = np.median(pairs[:, chosen], axis=2)
    values = tuple(compare(a, b) for a, b in medians.T)
    return Row(what, reach, sense, unit, values, len(ours))
