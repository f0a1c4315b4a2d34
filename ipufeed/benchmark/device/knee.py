"""The knee: utilisation as a function of the step time, around a pipeline's period.

    AU
    1 |        .------------      AU = min(1, step / period)
      |      .'
      |    .'
      |  .'
    0 +--------|------------ step
             period

A pipeline with a constant interval between elements follows this curve. One that delivers
in bursts is below it near the knee, where only buffers of the size of its bursts help.

All step times use one iterator, the shortest first: after a slow step its buffers are full,
which would increase the utilisation of a faster one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ipufeed import _native
from ipufeed.benchmark.device.run import DEVICE, build_program, stop_programs
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation, utilisation
from ipufeed.benchmark.measuring.steady_state import find_steady
from ipufeed.device.program.steps import StepTimes, to_times
from ipufeed.interruptible import run_interruptibly
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
from ipufeed.tf_types import Dataset

MULTIPLES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0)
# Each step time is measured for this duration, and for at least this number of steps.
POINT_S = 0.8
FEWEST_STEPS = 16
MOST_STEPS = 100_000
# A larger difference of a utilisation to the expected one is a deviation.
TOLERANCE = 0.05
# A point with a larger fraction of simulator overhead is ignored.
MOST_LATE = 0.05


@dataclass(frozen=True)
class Point:
    """A step time and its utilisation."""

    step_seconds: float
    found: Utilisation


@dataclass(frozen=True)
class Knee:
    """A sweep over step times.

    Attributes:
        period: Seconds between two elements while the device waits for each.
        points: The points, in the order of their step times.
        ended: Whether the dataset ended before the last point.
    """

    period: float
    points: tuple[Point, ...]
    ended: bool

    def expected(self, point: Point) -> float:
        """Returns the utilisation of a pipeline with a constant interval."""
        return min(1.0, point.step_seconds / self.period)

    def deviation(self) -> tuple[Point, float] | None:
        """Returns the point of the largest deviation, and this; None without a point."""
        off = [
            (point, point.found.au - self.expected(point))
            for point in self.points
            if point.found.late <= MOST_LATE
        ]
        return max(off, key=lambda pair: abs(pair[1]), default=None)


class Sweep:
    """Runs one loop on the device repeatedly, with one iterator of the dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self.infeed = IPUInfeedQueue(dataset, device_ordinal=0)
        self.outfeed = IPUOutfeedQueue(device_ordinal=0)
        self.program = build_program(self.infeed, self.outfeed, DeviceSettings())
        _ = self.infeed.initializer
        self.ended = False

    def steps(self, count: int, step_ns: int) -> StepTimes:
        """Returns the times of `count` steps, or fewer if the dataset ends."""
        try:
            with tf.device(DEVICE):
                self.program(
                    tf.constant(count, tf.int64), tf.constant(step_ns, tf.int64)
                )
        except tf.errors.OutOfRangeError:
            self.ended = True
        return to_times(np.asarray(self.outfeed.dequeue()["times"]))

    def close(self) -> None:
        """Releases the dataset, without waiting for its Python code."""
        entry = _native.entry()
        entry.ipufeed_infeed_delete(self.infeed._number)
        entry.ipufeed_outfeed_delete(self.outfeed._number)


def sweep_knee(dataset: Dataset, period: float) -> Knee | None:
    """Sweeps the step time from 1/4 to 4 times the period of `dataset`.

    Args:
        dataset: A dataset that an infeed can carry. It is iterated again, once.
        period: An estimate of the seconds between two of its elements: it is measured
            again through the device.

    Returns:
        None if the dataset ended before there was a period.

    Raises:
        tf.errors.OpError: The dataset failed.
        KeyboardInterrupt: After Ctrl-C; the program has been stopped.
    """

    def work() -> Knee | None:
        sweep = Sweep(dataset)
        try:
            return sweep_points(sweep, period)
        finally:
            sweep.close()

    found = run_interruptibly(work, name="ipufeed_knee", stop=stop_programs).result()
    assert found is None or isinstance(found, Knee)
    return found


class Steps(Protocol):
    """The part of a Sweep that sweep_points uses."""

    ended: bool

    @property
    def infeed(self) -> Any: ...  # noqa: D102 - an IPUInfeedQueue

    def steps(self, count: int, step_ns: int) -> StepTimes: ...  # noqa: D102


def sweep_points(sweep: Steps, period: float) -> Knee | None:
    """Measures the period and the points."""
    # Without a step time: this empties the buffers, and the period can be measured.
    ends = sweep.steps(steps_for(period) + sweep.infeed.stats().capacity, 0).end
    steady = find_steady(ends, sweep.ended)
    if steady is None:
        return None
    period = 1 / steady.rate
    points = []
    for multiple in MULTIPLES:
        if sweep.ended:
            break
        step_ns = max(1, round(multiple * period * 1e9))
        seconds = step_ns / 1e9
        times = sweep.steps(steps_for(max(period, seconds)), step_ns)
        found = utilisation(times, step_ns)
        if found is not None and found.steps >= FEWEST_STEPS // 2:
            points.append(Point(seconds, found))
    return Knee(_settled_period(period, points), tuple(points), sweep.ended)


def steps_for(seconds: float) -> int:
    """Returns the number of steps of this length for a point."""
    return min(MOST_STEPS, max(FEWEST_STEPS, math.ceil(POINT_S / max(seconds, 1e-9))))


def _settled_period(first: float, points: list[Point]) -> float:
    """Returns the median of the periods at points where the device waited for elements.

    A single one is that of half a second, which another process may have disturbed.
    """
    seen = [point.found.period for point in points if point.found.starved > 0.1]
    return float(np.median([first, *seen]))
