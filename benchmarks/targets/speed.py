"""How fast the machine computes now, and what that lends to the bounds on times.

A virtual machine's processors can be several times slower for minutes, without any load
of its own: the same loop takes as much more. A ratio of one run does not change with that;
a time does. `--quick` therefore fails on a time only beyond what the machine explains.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.targets import Row

TIMES = ("ns", "us", "ms", "s")
ADDITIONS = 1_000_000
# On the machine where the bounds were set.
ADDITIONS_S = 0.04


def additions() -> float:
    """Returns the seconds of a million additions in Python, the median of three."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        total = 0
        for i in range(ADDITIONS):
            total += i
        taken.append(time.perf_counter() - start)
    return sorted(taken)[1]


def slowness(seconds: Sequence[float]) -> float:
    """Returns the factor of the slowest of `additions()`; at least 1."""
    return max(1.0, max(seconds) / ADDITIONS_S)


def with_slack(rows: Sequence[Row], slow: float) -> list[Row]:
    """Returns the rows; those of times have at least `slow` of slack."""
    return [
        replace(each, slack=max(each.slack, slow)) if each.unit in TIMES else each
        for each in rows
    ]
