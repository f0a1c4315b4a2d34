"""What the stated cost of the Python loop contains."""

import time

import numpy as np
import pytest

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.loaders.calibration import LoopCost, seconds_in_run
from ipufeed.benchmark.measuring import loader as measuring_loader


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


def test_the_stated_cost_adds_the_calls_to_that_of_the_run(monkeypatch):
    """The run's waits for the loader contain the loop's own call of it."""
    cost = LoopCost(elements=10, seconds=1e-6, calling=0.25)
    monkeypatch.setattr(measuring_loader, "calibrate", lambda *_: cost)
    monkeypatch.setattr(measuring_loader, "seconds_in_run", lambda _: 0.5)

    result = measure((np.ones(3) for _ in range(5)), Settings(memcpy=False))

    assert result.calibration["seconds_per_element"] == 0.75
