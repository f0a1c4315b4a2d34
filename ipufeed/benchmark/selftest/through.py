"""Checks of the device: its utilisation is min(1, step / period) for each source."""

from __future__ import annotations

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.result.sections import DeviceSection
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, exact, within
from ipufeed.tf_types import Dataset

# Long compared to the run-queue delay of a thread on a busy machine.
STEP_S = 20e-3


def free_source(quick: bool) -> list[Row]:
    """Checks that a free source gives an AU of 100 %: the harness costs nothing."""
    found = run(planted.counted(10**9), quick)
    return [
        within("AU, free source", 1.0, found["au"], 0.02),
        exact("    verdict", "device-bound", found["verdict"]),
    ]


def slow_source(quick: bool) -> list[Row]:
    """Checks that the device waits half of its time for a source of twice the step."""
    before = planted.true_period(2 * STEP_S, 10)
    found = run(planted.sleeping(2 * STEP_S), quick)
    period = min(before, planted.true_period(2 * STEP_S, 10))
    return [
        within("AU, source of twice the step", STEP_S / period, found["au"], 0.05),
        within("    starved, of all steps", 1.0, found["starved_steps_share"], 0.1),
        exact("    verdict", "host-bound", found["verdict"]),
    ]


def fast_source(quick: bool) -> list[Row]:
    """Checks that a source of a quarter of the step keeps the device busy."""
    found = run(planted.sleeping(STEP_S / 4), quick)
    return [
        within("AU, source of 1/4 of the step", 1.0, found["au"], 0.03),
        exact("    verdict", "device-bound", found["verdict"]),
    ]


def run(dataset: Dataset, quick: bool) -> DeviceSection:
    """Returns the section `device` of a run with steps of STEP_S."""
    from ipufeed.benchmark.device.measure import measure_through

    result = measure_through(
        dataset,
        Settings(seconds=0.8 if quick else 2.0),
        device=DeviceSettings(step_seconds=STEP_S),
    )
    assert result.device is not None
    return result.device
