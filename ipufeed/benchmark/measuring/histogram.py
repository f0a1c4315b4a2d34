"""The distribution of the times between elements, on a logarithmic scale."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ipufeed.benchmark.result.sections import HistogramSection

# As many as a chart can show. A narrow distribution gets finer bins.
MOST_BINS = 200
BINS_PER_DECADE = (500, 200, 100, 50, 20, 10, 5)


def histogram(gaps: NDArray[np.int64]) -> HistogramSection:
    """Counts times in bins of equal ratio.

    Args:
        gaps: int64 [n], n at least 1, in ns, not negative. 0 counts as 1 ns: a bin on a
            logarithmic scale cannot hold it.

    Returns:
        `edges`: ascending, in ns, one more than `counts`. A time belongs to the bin whose
        lower edge it reaches; the counts add up to n.
    """
    low, high = max(1, int(gaps.min())), max(1, int(gaps.max()))
    for fineness in BINS_PER_DECADE:
        first = math.floor(math.log10(low) * fineness)
        last = math.floor(math.log10(high) * fineness) + 1
        if last - first <= MOST_BINS:
            break
    logarithms = np.log10(np.maximum(gaps, 1))
    # The same arithmetic as above, so that the longest time is within the last bin.
    bins = np.floor(logarithms * fineness).astype(np.int64) - first
    counts = np.bincount(np.clip(bins, 0, last - first - 1), minlength=last - first)
    edges = 10.0 ** (np.arange(first, last + 1) / fineness)
    return {
        "edges": [float(f"{edge:.6g}") for edge in edges],
        "counts": counts.tolist(),
    }
