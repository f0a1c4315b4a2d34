"""What the stated cost of the Python loop contains."""

import time

import numpy as np
import pytest

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.loaders.calibration import seconds_in_run


class Lazy:
    """An array that computes its size at the first request, as some do."""

    shape = (4,)
    dtype = np.dtype(np.float32)

    def __init__(self):
        self._bytes = 0

    @property
    def nbytes(self):
        if not self._bytes:
            time.sleep(0.002)
            self._bytes = 16
        return self._bytes


def test_the_loop_costs_what_it_did_with_new_elements():
    """The same element again and again would be cheaper."""
    result = measure((Lazy() for _ in range(30)), Settings(memcpy=False))

    assert result.dataset["bytes_per_element"] == 16
    assert result.calibration["seconds_per_element"] >= 0.002


def test_the_loop_in_the_run_is_that_of_the_fastest_window():
    """Start-up and end do not count, nor does a window in which no element came."""
    ms = 1_000_000
    marks = [
        (0, 0, 0, 0, 0, 0, 0),
        (10, 5, 0, 0, 1 * ms, 0, 0),
        (20, 10, 0, 0, 11 * ms, 0, 0),
        (30, 10, 0, 0, 12 * ms, 0, 0),
        (40, 14, 0, 0, 14 * ms, 0, 0),
        (50, 99, 0, 0, 14 * ms, 0, 0),
    ]

    assert seconds_in_run(marks) == pytest.approx(0.5e-3)
    assert seconds_in_run(marks[:2]) == 0.0
