"""The process's state of the system: configuration, attached devices and seeds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags.flags import Flags
from ipufeed.device.system.virtual_device import VirtualDevice


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
    """The state.

    Attributes:
        lock: Guards all of it.
        config: The configuration, or None before the first one.
        flags: TF_POPLAR_FLAGS, as the configuration has read them; None before it.
        devices: The virtual devices, by the ordinal of the TensorFlow device.
        attached: The ordinals of the devices that are attached.
        seeds: The last `reset_ipu_seed` of each device that has one, by its ordinal.
        generation: The number of changes of the devices so far.
        listeners: Called at each configuration and reset.
        seed_listeners: Called with an ordinal and its seed, at each `reset_ipu_seed`.
        processes: The number of processes, and the index of this one, for configurations
            that name no processes; None: one process.
    """

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
    processes: tuple[int, int] | None = None

    def add_processes(self, config: IPUConfig) -> None:
        """Completes a configuration that names no processes."""
        distribution = config.experimental.multi_replica_distribution
        if self.processes is not None and not distribution.process_count:
            distribution.process_count, distribution.process_index = self.processes


SYSTEM = System()
