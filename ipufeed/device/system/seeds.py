"""The seeds of devices, which make the random numbers of programs repeatable."""

from __future__ import annotations

from collections.abc import Callable

from ipufeed.checks import as_int, flags_checked
from ipufeed.device.system.device_names import check_host, ordinal_of
from ipufeed.device.system.state import SYSTEM, DeviceSeed
from ipufeed.device.system.system import require_usable


def on_seed(listener: Callable[[int, DeviceSeed], None]) -> None:
    """Calls `listener` with the ordinal and the seed at each `reset_ipu_seed`.

    It is called on that thread, and must not raise.
    """
    with SYSTEM.lock:
        SYSTEM.seed_listeners.append(listener)


def has_seeds() -> bool:
    """Returns whether `reset_ipu_seed` has been called for any device."""
    with SYSTEM.lock:
        return bool(SYSTEM.seeds)


@flags_checked
def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Resets a device's random numbers: the same seed gives the same numbers.

    After it, the same sequence of runs of the same programs draws the same numbers, also
    in another process, whether compiled, loaded from a file, or run by the executor.
    Every run, iteration, op and replica draws different numbers. It affects the random ops
    in programs on the device, and ops that run there in eager mode, but not functions of
    datasets: seed those with `tf.random.set_seed` or their own arguments. Runs that have
    begun keep their seed.

    Call it after `configure_ipu_system`: a configuration that differs from the one before,
    and `reset_ipu_configuration`, remove the seed, and log a warning.

    Args:
        seed: In [-2**63, 2**63).
        device: The device. Default: "/device:IPU:0".
        cpu_device: Its host. Another value has no effect, with a warning. Default: "cpu".
        experimental_identical_replicas: Whether all replicas draw the same numbers.
            Default: False.

    Raises:
        TypeError: `seed` is not an integer, or a flag is not a bool.
        ValueError: `seed` is out of range.
        DeviceOrdinalError: The device does not exist, or has not been configured.
    """
    check_host("reset_ipu_seed", "cpu_device", cpu_device)
    seed = as_int("seed", seed)
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"`seed` must be in [-2**63, 2**63), got {seed}.")
    with SYSTEM.lock:
        ordinal = require_usable(ordinal_of(device)).ordinal
        before = SYSTEM.seeds.get(ordinal)
        number = before.number + 1 if before else 1
        wanted = DeviceSeed(seed, bool(experimental_identical_replicas), number)
        SYSTEM.seeds[ordinal] = wanted
        for listener in SYSTEM.seed_listeners:
            listener(ordinal, wanted)
