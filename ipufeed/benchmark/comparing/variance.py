"""How far a run's rate lies from what the next run would give, from its windows alone.

Neighbouring windows are not independent: noise comes in stretches, and the longest of
them decide how well a rate is known. So the variance of a mean over b windows is taken at
each scale b, from 1 to a fifth of the run, and carried on to the whole run along the slope
at which it falls:

    log variance
      |  o
      |     o            slope -1: independent, twice as long is half the variance
      |         o        slope  0: a drift, or noise of all lengths; longer does not help
      |             o
      |                  .  the whole run
      +------------------------- log b

The slope is never taken for steeper than -1, of all scales the one that gives the most
counts, and the flatter the slope the more is added for what is longer than the run: so what
is wrong is wrong in the direction of *cannot tell*.

Source: the aggregated variance method of Taqqu, Teverovsky and Willinger, "Estimators for
long-range dependence: an empirical study", Fractals 3(4), 1995, on the overlapping batch
means of Meketon and Schmeiser, "Overlapping batch means: something for nothing?", Winter
Simulation Conference, 1984.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

# Batches that the largest scale must still have, for their variance to mean something.
FEWEST_BATCHES = 5
# Noise that does not average out within a run goes on beyond it: with a slope of 0 there
# is as much in each octave of time, and the next run lies some octaves away.
UNSEEN = 1.5
# Fewer windows give no slope.
FEWEST_WINDOWS = 8

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Spread:
    """The variance of the logarithm of a run's rate, as its own windows show it.

    Attributes:
        variance: For the run as long as it was. Its root is a share: 0.01 is 1 %.
        slope: In [-1, 0]: a run that is k times as long has k ** slope of the variance.
    """

    variance: float
    slope: float


def spread_of(elements: Numbers, seconds: Numbers) -> Spread | None:
    """Returns the variance of such windows' rate; None where they are too few.

    Args:
        elements: float64 [n], elements of each window, in order.
        seconds: float64 [n], their lengths, each above 0.
    """
    windows = len(elements)
    if windows < FEWEST_WINDOWS:
        return None
    rate = elements.sum() / seconds.sum()
    # What each window has more or less than its time's share: a ratio's linear part.
    excess = (elements - rate * seconds) / elements.mean()
    scales = scales_of(windows)
    variances = np.array([batch_variance(excess, scale) for scale in scales])
    if not variances.max() > 0:
        return Spread(0.0, -1.0)
    slope = slope_of(scales, np.maximum(variances, 1e-3 * variances.max()))
    carried = variances * (windows / scales) ** slope
    return Spread(float(carried.max()) * (1 + UNSEEN * (1 + slope)), slope)


def scales_of(windows: int) -> Numbers:
    """1, 2, 4, ... windows, as long as a run has FEWEST_BATCHES of them."""
    largest = max(1, windows // FEWEST_BATCHES)
    return np.array([2.0**power for power in range(int(np.log2(largest)) + 1)])


def batch_variance(excess: Numbers, scale: float) -> float:
    """The variance of the mean of `scale` neighbours, over all places in the run."""
    batch = int(scale)
    sums = np.cumsum(np.concatenate([[0.0], excess]))
    means = (sums[batch:] - sums[:-batch]) / batch
    batches = len(excess) / batch
    # The mean of all is known to be 0, at the price of one degree of freedom.
    return float(np.mean(means**2) * batches / (batches - 1))


def slope_of(scales: Numbers, variances: Numbers) -> float:
    """The slope of log variance on log scale, in [-1, 0].

    All scales count alike: the short ones are known better, and are weaker evidence of
    the long ones.
    """
    if len(scales) < 2:
        return -1.0
    slope = np.polyfit(np.log(scales), np.log(variances), 1)[0]
    return float(np.clip(slope, -1.0, 0.0))


@functools.cache
def student_quantile(level: float, freedom: float) -> float:
    """How many standard errors hold `level` of Student's t, on both sides together.

    With t = sqrt(freedom) * tan(angle) its density is a power of cos(angle): that is
    integrated here, for any freedom from 1 up. (scipy has it, and takes 1.7 s to import.)
    """
    angle = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.cumsum(density) - (density + density[0]) / 2  # the trapezoids up to here
    return float(np.sqrt(freedom) * np.tan(np.interp(level, share / share[-1], angle)))
