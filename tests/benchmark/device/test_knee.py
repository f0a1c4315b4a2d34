"""What the sweep of step times promises, on pipelines that are made up."""

import types

import numpy as np
import pytest

from ipufeed.benchmark.device.knee import (
    MULTIPLES,
    TOLERANCE,
    steps_for,
    sweep_points,
)
from ipufeed.device.program.steps import StepTimes

MS = 1_000_000


class Pipeline:
    """Stands for a Sweep: elements in bursts of `burst`, `period_ns` apart on average.

    The device runs by the rule of cc/core/step_clock.h. `ready` bursts are there before the
    first request; then work on a burst begins once all but AHEAD of the last are taken.
    """

    AHEAD = 4

    def __init__(self, period_ns, burst=1, ready=0, elements=10**9, late_ns=0):
        self.period_ns = period_ns
        self.burst = burst
        self.made = [0] * ready  # when each burst was
        self.taken = []  # when each element was
        self.elements = elements
        self.late_ns = late_ns
        self.ended = False
        self.now = 0
        stats = types.SimpleNamespace(capacity=self.AHEAD)
        self.infeed = types.SimpleNamespace(stats=lambda: stats)

    def take(self, at):
        """When the next element is there, if it is requested at that time."""
        number = len(self.taken) // self.burst
        while len(self.made) <= number:
            before = self.made[-1] if self.made else 0
            last = len(self.made) * self.burst - 1 - self.AHEAD
            begun = max(before, self.taken[last]) if last >= 0 else before
            self.made.append(begun + self.period_ns * self.burst)
        at = max(at, self.made[number])
        self.taken.append(at)
        return at

    def steps(self, count, step_ns):
        rows = []
        for _ in range(count):
            if len(self.taken) == self.elements:
                self.ended = True
                break
            free = self.now
            start = self.take(free)
            self.now = start + step_ns + self.late_ns
            rows.append((free, start, start, self.now))
        table = np.array(rows, np.int64).reshape(-1, 4).T
        return StepTimes(*table)


def test_an_even_pipeline_follows_the_bend():
    """AU = min(1, step / period) at each step time, from a quarter to four periods."""
    knee = sweep_points(Pipeline(5 * MS), 0.004)

    assert knee.period == pytest.approx(0.005, rel=1e-3)
    assert len(knee.points) == len(MULTIPLES)
    for point, multiple in zip(knee.points, MULTIPLES, strict=True):
        assert point.step_seconds == pytest.approx(multiple * 0.005, rel=1e-2)
        assert point.found.au == pytest.approx(min(1, multiple), abs=0.01)
    assert abs(knee.deviation()[1]) < 0.01
    assert not knee.ended


def test_what_was_buffered_before_is_not_taken_for_speed():
    """A hundred elements that lie there are used up before the first step time."""
    knee = sweep_points(Pipeline(5 * MS, ready=100), 0.005)

    assert knee.period == pytest.approx(0.005, rel=0.02)
    assert abs(knee.deviation()[1]) < TOLERANCE


def test_a_pipeline_in_bursts_falls_short_and_is_warned_of():
    """Twenty at once, and room for four: a step of one period cannot be kept."""
    knee = sweep_points(Pipeline(5 * MS, burst=20), 0.005)
    point, off = knee.deviation()

    assert off < -TOLERANCE
    assert 0.5 < point.step_seconds / knee.period < 2.1


def test_a_dataset_that_ends_leaves_the_points_before():
    """And says that it ended."""
    whole = sum(
        steps_for(max(0.005, 0.005 * multiple)) for multiple in (1, *MULTIPLES[:3])
    )
    knee = sweep_points(Pipeline(5 * MS, elements=whole + 10), 0.005)

    assert knee.ended
    assert 3 <= len(knee.points) <= 4


def test_a_dataset_of_nothing_has_no_knee():
    """Neither period nor points."""
    assert sweep_points(Pipeline(MS, elements=1), 0.005) is None


def test_where_the_harness_is_too_slow_no_deviation_is_blamed_on_the_pipeline():
    """Points with more than 5 % of its time do not count."""
    knee = sweep_points(Pipeline(5 * MS, late_ns=100 * MS), 0.005)

    assert knee.deviation() is None
