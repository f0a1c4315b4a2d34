"""What get_ipu_config gives: the configuration under the names of the original's message.

Source: the names of the fields are those of Graphcore's protocol message IpuOptions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ipufeed.device.config.config import IPUConfig, as_tuple, tiles_per_ipu
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.system.virtual_device import VirtualDevice

_CONNECTIONS = {
    DeviceConnectionType.ALWAYS: 0,
    DeviceConnectionType.ON_DEMAND: 1,
    DeviceConnectionType.NEVER: 2,
    DeviceConnectionType.PRE_COMPILE: 3,
}


@dataclass(frozen=True)
class DeviceOptions:
    """The options of one configured device: the whole configuration, equal for all of them.

    The fields of the original's message are there, too: `device_config` (an entry for each
    device, with `auto_count` or `cfg_index`), `creator_id`, `ipu_model_config`,
    `device_connection_type` (0 to 3 for ALWAYS, ON_DEMAND, NEVER, PRE_COMPILE),
    `ipu_version`, `selection_order`, `speed_size_config`, `compilation_options`,
    `floating_point_behaviour`, `num_io_tiles`, `prefetch_data_streams`.
    `configure_ipu_system` takes such an object.

    Attributes:
        device: What it stands for; two are equal whatever that is.
        config: A copy of what was configured.
        connection_type: When it attaches, flags taken into account.
    """

    device: VirtualDevice = field(compare=False)
    config: IPUConfig = field(repr=False)
    connection_type: DeviceConnectionType

    creator_id = 1  # a user's

    @property
    def device_config(self) -> list[SimpleNamespace]:
        """An entry for each device."""
        selected = as_tuple(self.config.select_ipus)
        if selected:
            return [SimpleNamespace(auto_count=0, cfg_index=each) for each in selected]
        counts = as_tuple(self.config.auto_select_ipus) or (1,)
        return [SimpleNamespace(auto_count=each, cfg_index=0) for each in counts]

    @property
    def ipu_model_config(self) -> SimpleNamespace:
        """The IPU Model."""
        model = self.config.ipu_model
        return SimpleNamespace(
            compile_ipu_code=model.compile_ipu_code,
            tiles_per_ipu=tiles_per_ipu(self.config, use_ipu_model=True),
            ipu_model_version=model.version,
        )

    @property
    def device_connection_type(self) -> int:
        """When it attaches."""
        return _CONNECTIONS[self.connection_type]

    @property
    def ipu_version(self) -> str:
        """The hardware that is compiled for without attaching."""
        return self.config.device_connection.version

    @property
    def selection_order(self) -> int:
        """The value of the SelectionOrder."""
        return int(self.config.selection_order.value)

    @property
    def speed_size_config(self) -> SimpleNamespace:
        """What trades speed for memory."""
        return SimpleNamespace(
            allow_recompute=self.config.allow_recompute,
            merge_infeed_io_copies=self.config.optimizations.merge_infeed_io_copies,
        )

    @property
    def compilation_options(self) -> list[SimpleNamespace]:
        """Options of the engine."""
        options = self.config.compilation_poplar_options
        return [
            SimpleNamespace(option=name, value=str(value))
            for name, value in options.items()
        ]

    @property
    def floating_point_behaviour(self) -> SimpleNamespace:
        """Which events stop a program; `set_all` is all of them, and rounding."""
        behaviour = self.config.floating_point_behaviour
        every = behaviour.set_all
        return SimpleNamespace(
            inv=every or behaviour.inv,
            div0=every or behaviour.div0,
            oflo=every or behaviour.oflo,
            nanoo=every or behaviour.nanoo,
            esr=1 if every else int(behaviour.esr.value),
        )

    @property
    def num_io_tiles(self) -> int:
        """Tiles that only move data."""
        return self.config.io_tiles.num_io_tiles

    @property
    def prefetch_data_streams(self) -> bool:
        """Whether elements are fetched ahead."""
        return self.config.optimizations.prefetch_data_streams

    def SerializeToString(self) -> bytes:  # noqa: N802 - a message's
        """The configuration as JSON, with `device_connection_type` as it is in force."""
        values: dict[str, Any] = self.config.to_dict()
        values["device_connection_type"] = self.device_connection_type
        return json.dumps(values, default=str, sort_keys=True).encode()
