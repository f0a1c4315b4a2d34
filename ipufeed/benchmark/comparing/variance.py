"""Estimates the variance of a run's rate from its windows alone.

Neighbouring windows are not independent: noise is correlated in time, and its longest
correlations dominate the error of a rate. So the variance of a mean over b windows is taken
at each scale b, from 1 to a fifth of the run, and extrapolated to the whole run along the
slope at which it falls:

    log variance
      |  o
      |     o            slope -1: independent, twice as long is half the variance
      |         o        slope  0: a drift, or noise of all lengths; longer does not help
      |             o
      |                  .  the whole run
      +------------------------- log b

The slope is at least -1, the scale with the largest extrapolated variance counts, and the
flatter the slope, the more is added for noise that is longer than the run: errors of the
estimate lead to *cannot tell*.

Source: the aggregated variance method of Taqqu, Teverovsky and Willinger, "Estimators for
long-range dependence: an empirical study", Fractals 3(4), 1995, on the overlapping batch
means of Meketon and Schmeiser, "Overlapping batch means: something for nothing?", Winter
Simulation Conference, 1984.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Fewest batches of the largest scale: their variance is not meaningful with fewer.
FEWEST_BATCHES = 5
# Noise that does not average out within a run also has longer periods: with a slope of 0
# each octave of time adds as much, and the next run lies some octaves away.
UNSEEN = 1.5
# Fewer windows do not determine a slope.
FEWEST_WINDOWS = 8

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LogVariance:
    """The variance of the logarithm of a run's rate, estimated from its windows.

    Attributes:
        value: For the run's own length. Its root is a fraction: 0.01 is 1 %.
        slope: In [-1, 0]: a run that is k times as long has k ** slope of the variance.
    """

    value: float
    slope: float


def log_variance_of(elements: Numbers, seconds: Numbers) -> LogVariance | None:
    """Estimates the variance of the windows' log rate; None if they are too few.

    Args:
        elements: float64 [n], elements of each window, in order.
        seconds: float64 [n], their lengths, each above 0.
    """
    windows = len(elements)
    if windows < FEWEST_WINDOWS:
        return None
    rate = elements.sum() / seconds.sum()
    # Each window's deviation from the mean rate: the linear part of the ratio.
    excess = (elements - rate * seconds) / elements.mean()
    scales = _scales_of(windows)
    variances = np.array([batch_variance(excess, scale) for scale in scales])
    if not variances.max() > 0:
        return LogVariance(0.0, -1.0)
    slope = _slope_of(scales, np.maximum(variances, 1e-3 * variances.max()))
    carried = variances * (windows / scales) ** slope
    return LogVariance(float(carried.max()) * (1 + UNSEEN * (1 + slope)), slope)


def _scales_of(windows: int) -> Numbers:
    """1, 2, 4, ... windows, while the run has at least FEWEST_BATCHES such batches."""
    largest = max(1, windows // FEWEST_BATCHES)
    return np.array([2.0**power for power in range(int(np.log2(largest)) + 1)])


def batch_variance(excess: Numbers, scale: float) -> float:
    """Returns the variance of the mean of `scale` neighbours, over all positions."""
    batch = int(scale)
    sums = np.cumsum(np.concatenate([[0.0], excess]))
    means = (sums[batch:] - sums[:-batch]) / batch
    batches = len(excess) / batch
    # The mean of all is 0 by definition, which takes one degree of freedom.
    return float(np.mean(means**2) * batches / (batches - 1))


def _slope_of(scales: Numbers, variances: Numbers) -> float:
    """Returns the slope of log variance on log scale, in [-1, 0].

    All scales have the same weight: the short ones are more precise, but say less about
    the long ones.
    """
    if len(scales) < 2:
        return -1.0
    slope = np.polyfit(np.log(scales), np.log(variances), 1)[0]
    return float(np.clip(slope, -1.0, 0.0))


@functools.cache
def student_quantile(level: float, freedom: float) -> float:
    """Returns the two-sided quantile of Student's t at `level`, in standard errors.

    With t = sqrt(freedom) * tan(angle) its density is a power of cos(angle), which is
    integrated here for any freedom from 1 up. (scipy takes 1.7 s to import.)
    """
    angle = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    area = (
        np.cumsum(density) - (density + density[0]) / 2
    )  # trapezoids up to each angle
    return float(np.sqrt(freedom) * np.tan(np.interp(level, area / area[-1], angle)))
