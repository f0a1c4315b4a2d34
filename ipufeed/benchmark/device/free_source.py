"""The simulator's overhead: the utilisation with a source that is never late.

With this source a device is never starved, so that the difference of its utilisation to
100 % is the simulator's overhead. For a tool that includes its own time it is 15 to 20 %.
"""

from __future__ import annotations

from ipufeed.benchmark.device.run import run_on_device
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation, utilisation
from ipufeed.benchmark.measuring.calibration import null_pipeline
from ipufeed.benchmark.result.settings import Settings

# The bounds of its steps and of its duration.
FEWEST_STEPS, MOST_STEPS = 3, 1000
LEAST_S, MOST_S = 0.5, 3.0


def measure_free_source(
    bytes_per_element: int, device: DeviceSettings
) -> Utilisation | None:
    """Returns the utilisation with elements of this size from memory; None without steps.

    Args:
        bytes_per_element: The size of the measured elements.
        device: The device; its results are read without a delay.
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
    if run is None:
        return None
    return utilisation(run.step_times(), device.step_ns)
