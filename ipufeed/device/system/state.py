"""What has been configured in this process, and what is attached and seeded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags.flags import Flags
from ipufeed.device.system.virtual_device import (
    VirtualDevice,
)
from ipufeed.no_effect import no_effect

ONE_HOST = "all IPUs belong to this process, whose only host is /device:CPU:0"


def warn_of_host(name: str, device: str) -> None:
    """Warns of a host's name; there is only one."""
    if device != "cpu":
        no_effect(name, ONE_HOST)


@dataclass(frozen=True)
class DeviceSeed:
    """What `reset_ipu_seed` set.

    Attributes:
        seed: The seed.
        identical_replicas: Whether all replicas draw the same numbers.
        number: How many resets there had been on the device, this one included: a
            program that has seen a smaller one starts its generator again.
    """

    seed: int
    identical_replicas: bool
    number: int


@dataclass
class System:
    """What has been configured. The lock guards all of it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    config: IPUConfig | None = None
    flags: Flags | None = None
    devices: tuple[VirtualDevice, ...] = ()
    attached: set[int] = field(default_factory=set)
    seeds: dict[int, DeviceSeed] = field(default_factory=dict)
    generation: int = 0
    listeners: list[Callable[[], None]] = field(default_factory=list)
    seed_listeners: list[Callable[[int, DeviceSeed], None]] = field(
        default_factory=list
    )


SYSTEM = System()
