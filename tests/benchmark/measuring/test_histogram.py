"""What the histogram promises: every time in it once, in the bin that it belongs to."""

import numpy as np
import pytest

from ipufeed.benchmark.measuring.histogram import MOST_BINS, histogram


@pytest.mark.parametrize(
    "gaps",
    [
        [0],
        [1],
        [1000],
        [10**k for k in range(13)],
        [999, 1000, 1001],
        [0, 0, 10**12],
        list(range(1, 5000, 7)),
    ],
    ids=str,
)
def test_each_time_is_in_the_bin_between_whose_edges_it_is(gaps):
    """Powers of ten and the extremes included; edges are given to six digits."""
    held = histogram(np.array(gaps, np.int64))

    edges, counts = np.array(held["edges"]), held["counts"]
    assert len(edges) == len(counts) + 1 <= MOST_BINS + 1
    assert sum(counts) == len(gaps)
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= max(1, min(gaps)) * 1.00001
    assert edges[-1] > max(gaps) * 0.99999
    expected = np.histogram(np.maximum(gaps, 1), edges)[0]
    # A time that is an edge itself may be on either side of the rounded edge.
    assert np.abs(np.cumsum(counts) - np.cumsum(expected)).max() <= 1


def test_a_narrow_distribution_gets_narrow_bins():
    """4.0 to 4.4 ms would be one bar at ten bins for a decade."""
    gaps = np.linspace(4.0e6, 4.4e6, 1000).astype(np.int64)

    assert len(histogram(gaps)["counts"]) >= 10
