"""The knee: utilisation over the step time, across the period of a pipeline.

    AU
    1 |        .------------      AU = min(1, step / period)
      |      .'
      |    .'
      |  .'
    0 +--------|------------ step
             period

A pipeline whose elements come evenly follows the bend. One that delivers in bursts falls
short of it near the knee, where only buffers as large as its bursts would help.

The iterator goes on from one step time to the next, the shortest first: what its buffers
hold after a slow step would make the next, faster one look better than it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

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
# Each step time is tried for this long, and for at least this many steps.
POINT_S = 0.8
FEWEST_STEPS = 16
MOST_STEPS = 100_000
# Points that a utilisation may be off before it is a deviation.
TOLERANCE = 0.05
# Where the simulation itself took more than this share, a point is void.
MOST_LATE = 0.05


@dataclass(frozen=True)
class Point:
    """One step time and what came of it."""

    step_seconds: float
    found: Utilisation


@dataclass(frozen=True)
class Knee:
    """A sweep.

    Attributes:
        period: Seconds between two elements where the device waits for each.
        points: In the order of their step times.
        ended: Whether the dataset came to its end before the last one.
    """

    period: float
    points: tuple[Point, ...]
    ended: bool

    def expected(self, point: Point) -> float:
        """The utilisation of an even pipeline of this period."""
        return min(1.0, point.step_seconds / self.period)

    def deviation(self) -> tuple[Point, float] | None:
        """The point that is furthest off, and by how much; None where none counts."""
        off = [
            (point, point.found.au - self.expected(point))
            for point in self.points
            if point.found.late <= MOST_LATE
        ]
        return max(off, key=lambda pair: abs(pair[1]), default=None)


class Sweep:
    """Runs one loop on the device again and again, over one iterator of the dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self.infeed = IPUInfeedQueue(dataset, device_ordinal=0)
        self.outfeed = IPUOutfeedQueue(device_ordinal=0)
        self.program = build_program(self.infeed, self.outfeed, DeviceSettings())
        _ = self.infeed.initializer
        self.ended = False

    def steps(self, count: int, step_ns: int) -> StepTimes:
        """The times of up to `count` steps; fewer where the dataset ends."""
        import tensorflow as tf

        try:
            with tf.device(DEVICE):
                self.program(
                    tf.constant(count, tf.int64), tf.constant(step_ns, tf.int64)
                )
        except tf.errors.OutOfRangeError:
            self.ended = True
        return to_times(np.asarray(self.outfeed.dequeue()["times"]))

    def close(self) -> None:
        """Lets go of the dataset, without waiting for Python code inside it."""
        entry = _native.entry()
        entry.ipufeed_infeed_delete(self.infeed._number)
        entry.ipufeed_outfeed_delete(self.outfeed._number)


def sweep_knee(dataset: Dataset, period: float) -> Knee | None:
    """Sweeps the step time from 1/4 to 4 times the period of `dataset`.

    Args:
        dataset: What an infeed can feed. It is iterated again, once.
        period: Seconds between two of its elements, as far as they are known: it is
            measured again on the way through the device.

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


def sweep_points(sweep: Any, period: float) -> Knee | None:
    """The points, from a Sweep or what stands for one."""
    # As fast as it goes: what the buffers hold is used up, and the period shows.
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
    return Knee(settled_period(period, points), tuple(points), sweep.ended)


def steps_for(seconds: float) -> int:
    """Steps of that length that make a point."""
    return min(MOST_STEPS, max(FEWEST_STEPS, math.ceil(POINT_S / max(seconds, 1e-9))))


def settled_period(first: float, points: list[Point]) -> float:
    """The median of the periods that were seen where the device waited for elements.

    A single one is that of half a second, in which another process may have come by.
    """
    seen = [point.found.period for point in points if point.found.starved > 0.1]
    return float(np.median([first, *seen]))
