"""Checks of the device: utilisation with a free source, and with one that is too slow."""

from __future__ import annotations

from typing import Any

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device_settings import DeviceSettings
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, exact

STEP_S = 4e-3


def device(quick: bool) -> list[Row]:
    """AU of min(1, step / period), for a free source, a slow one and a fast one."""
    seconds = 0.6 if quick else 1.5
    free = run(planted.counted(10**9), STEP_S, seconds)
    before = planted.true_period(2 * STEP_S, 30)
    slow = run(planted.sleeping(2 * STEP_S), STEP_S, seconds)
    period = (before + planted.true_period(2 * STEP_S, 30)) / 2
    fast = run(planted.sleeping(STEP_S / 4), STEP_S, seconds)
    return [
        share("AU, free source", 1.0, free["au"], 0.02),
        exact("verdict, free source", "device-bound", free["verdict"]),
        share("AU, source of twice the step", STEP_S / period, slow["au"], 0.05),
        share("starved, of all steps", 1.0, slow["starved_steps_share"], 0.1),
        exact("verdict, slow source", "host-bound", slow["verdict"]),
        share("AU, source of 1/4 of the step", 1.0, fast["au"], 0.03),
        exact("verdict, fast source", "device-bound", fast["verdict"]),
    ]


def share(what: str, expected: float, measured: Any, off: float) -> Row:
    """A share that may be off by so many points."""
    return Row(what, "", expected, measured, (expected - off, expected + off))


def run(dataset: Any, step: float, seconds: float) -> dict[str, Any]:
    """`device` of the result of a run with that step time."""
    from ipufeed.benchmark.through import measure_through

    result = measure_through(
        dataset, Settings(seconds=seconds), device=DeviceSettings(step_seconds=step)
    )
    assert result.device is not None
    return result.device
