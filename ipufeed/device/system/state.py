"""The process's state of the system: configuration, attached devices and seeds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ipufeed.checks import check_text
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags.flags import Flags
from ipufeed.device.system.virtual_device import VirtualDevice
from ipufeed.no_effect import no_effect

ONE_HOST = "all IPUs belong to this process, whose only host is /device:CPU:0"


def warn_of_host(call: str, argument: str, device: str) -> None:
    """Warns of the name of another host: there is only one.

    Raises:
        TypeError: The name is not a str.
    """
    check_text(argument, device)
    if device not in ("cpu", "/device:CPU:0"):
        no_effect(f"{call}({argument}=)", ONE_HOST)


@dataclass(frozen=True)
class DeviceSeed:
    """The arguments of a `reset_ipu_seed`.

    Attributes:
        seed: The seed.
        identical_replicas: Whether all replicas draw the same numbers.
        number: The number of resets of the device, including this one: a program that has
            seen a smaller number restarts its generator.
    """

    seed: int
    identical_replicas: bool
    number: int


@dataclass
class System:
    """The state. The lock guards all of it."""

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
    # Number of processes, and this one's: of configurations that name none.
    processes: tuple[int, int] | None = None

    def add_processes(self, config: IPUConfig) -> None:
        """Completes a configuration that names no processes."""
        distribution = config.experimental.multi_replica_distribution
        if self.processes is not None and not distribution.process_count:
            distribution.process_count, distribution.process_index = self.processes


SYSTEM = System()
