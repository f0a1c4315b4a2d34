"""What the simulated device costs: a source that is never late, at the same step time.

With it a device is never starved, so that whatever its utilisation is short of 100 % is
the simulation's own. A tool that counts itself reads 15 to 20 % here.
"""

from __future__ import annotations

from ipufeed.benchmark.device.run import run_on_device
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation, utilisation
from ipufeed.benchmark.measuring.calibration import null_pipeline
from ipufeed.benchmark.result.settings import Settings

# The bounds of its steps and of its seconds.
FEWEST_STEPS, MOST_STEPS = 3, 1000
LEAST_S, MOST_S = 0.5, 3.0


def measure_free_source(
    bytes_per_element: int, device: DeviceSettings
) -> Utilisation | None:
    """The utilisation with elements of that size from memory; None after no steps.

    Args:
        bytes_per_element: Of the measured elements.
        device: The device; its results are read as fast as they come.
    """
    step = device.step_seconds or 0.0
    wanted = max(10, round(LEAST_S / max(step, 1e-6)))
    most = max(FEWEST_STEPS, round(MOST_S / max(step, 1e-6)))
    steps = min(wanted, most, MOST_STEPS)
    run, interruption = run_on_device(
        null_pipeline(max(1, bytes_per_element), 1),
        Settings(epochs=1, elements=steps + 1),
        device=DeviceSettings(step_seconds=device.step_seconds),
    )
    if interruption is not None:
        raise interruption
    return utilisation(run.step_times(), device.step_ns)
