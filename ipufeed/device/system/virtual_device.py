"""Virtual devices: the IPUs of each `/device:IPU:n`, derived from a config."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.checks import is_power_of_two
from ipufeed.device.config.config import (
    MOST_TILES,
    IPUConfig,
    as_tuple,
    is_set,
    tiles_per_ipu,
)
from ipufeed.device.config.enums import DeviceConnectionType, SelectionOrder
from ipufeed.device.flags.flags import Flags
from ipufeed.device.log import LOGGER
from ipufeed.device.system import topology
from ipufeed.errors import PoplarFlagsError


@dataclass(frozen=True, kw_only=True)
class VirtualDevice:
    """The IPUs of one `/device:IPU:n`.

    Attributes:
        ordinal: n.
        num_ipus: The number of its IPUs.
        ipus: Their numbers in the server; empty with the IPU Model, and for
            `auto_select_ipus` with PRE_COMPILE or NEVER.
        hardware_id: The ID of their group, or None.
        tiles_per_ipu: The number of tiles of each IPU.
        num_io_tiles: The number of these that only move data; even.
        order: The configured order of its IPUs, for reports and the compile context: it
            moves no shard or stage.
    """

    ordinal: int
    num_ipus: int
    ipus: tuple[int, ...] = ()
    hardware_id: int | None = None
    tiles_per_ipu: int
    num_io_tiles: int = 0
    order: SelectionOrder = SelectionOrder.AUTO

    @property
    def name(self) -> str:
        """The name of its TensorFlow device, such as "/device:IPU:0"."""
        return f"/device:IPU:{self.ordinal}"

    def attach_line(self) -> str:
        """Returns the line that is logged after attaching; programs match it."""
        plural = "s" if self.num_ipus > 1 else ""
        line = f"TensorFlow device {self.name} attached to {self.num_ipus} IPU{plural}"
        if self.hardware_id is None:
            return f"{line} of the IPU Model"
        ids = ",".join(map(str, self.ipus))
        line = f"{line} with Poplar device ID{plural}: {ids}"
        return f"{line} (multi-IPU ID {self.hardware_id})" if plural else line


def single_device(ordinal: int) -> VirtualDevice:
    """Returns the device of an ordinal without a configuration: the IPU of that number."""
    config = IPUConfig()
    return VirtualDevice(
        ordinal=ordinal,
        num_ipus=1,
        ipus=(ordinal,),
        hardware_id=ordinal,
        tiles_per_ipu=tiles_per_ipu(config, use_ipu_model=False),
    )


def virtual_devices(config: IPUConfig, flags: Flags) -> tuple[VirtualDevice, ...]:
    """Returns the devices of a valid config; by default one device of one IPU.

    Raises:
        tf.errors.ResourceExhaustedError: There are not enough IPUs.
        tf.errors.InvalidArgumentError: The hardware ID is unknown.
        ValueError: There are more devices than can be registered.
        PoplarFlagsError: The flag's number of tiles is out of range.
    """
    groups = _groups(config, flags)
    if len(groups) > topology.NUM_IPUS:
        raise ValueError(
            f"At most {topology.NUM_IPUS} devices can be configured, got {len(groups)}."
        )
    tiles = tiles_per_ipu(config, flags.use_ipu_model)
    if flags.ipu_model_tiles > MOST_TILES:
        raise PoplarFlagsError(
            f"TF_POPLAR_FLAGS: --ipu_model_tiles must be at most {MOST_TILES}, got "
            f"{flags.ipu_model_tiles}."
        )
    if flags.use_ipu_model and flags.ipu_model_tiles > 0:
        tiles = flags.ipu_model_tiles
    io_tiles = config.io_tiles.num_io_tiles
    if io_tiles % 2:
        io_tiles += 1
        LOGGER.info(
            "The number of I/O tiles must be even: rounding %d up to %d.",
            io_tiles - 1,
            io_tiles,
        )
    return tuple(
        VirtualDevice(
            ordinal=ordinal,
            num_ipus=num_ipus,
            ipus=ipus,
            hardware_id=hardware_id,
            tiles_per_ipu=tiles,
            num_io_tiles=io_tiles,
            order=config.selection_order,
        )
        for ordinal, (num_ipus, ipus, hardware_id) in enumerate(groups)
    )


_Group = tuple[int, tuple[int, ...], int | None]


def _groups(config: IPUConfig, flags: Flags) -> list[_Group]:
    """Returns the number of IPUs, the IPUs and the hardware ID of each device."""
    counts = as_tuple(config.auto_select_ipus) or (1,)
    offline = config.device_connection.type in (
        DeviceConnectionType.PRE_COMPILE,
        DeviceConnectionType.NEVER,
    )
    if is_set(config.select_ipus):
        return _selected(as_tuple(config.select_ipus), exclusive=not offline)
    if flags.use_ipu_model:
        return [(count, (), None) for count in counts]
    # Programs may be compiled for a larger server than this one.
    if offline and all(map(is_power_of_two, counts)):
        return [(count, (), None) for count in counts]
    hardware_ids = topology.allocate(counts)
    if hardware_ids is None:
        from tensorflow.python.framework import errors

        raise errors.ResourceExhaustedError(
            None,
            None,
            f"Could not find an available device for each of {list(counts)} IPUs: there "
            f"are {topology.NUM_IPUS} IPUs, in devices of 1, 2, 4, 8 or 16.",
        )
    return [
        (len(topology.GROUPS[each]), topology.GROUPS[each], each)
        for each in hardware_ids
    ]


def _selected(hardware_ids: tuple[int, ...], exclusive: bool) -> list[_Group]:
    from tensorflow.python.framework import errors

    users: dict[int, int] = {}
    groups: list[_Group] = []
    for ordinal, hardware_id in enumerate(hardware_ids):
        if not 0 <= hardware_id < len(topology.GROUPS):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Requested device configuration index {hardware_id}, but "
                f"{len(topology.GROUPS)} were available: 0 to {len(topology.GROUPS) - 1}.",
            )
        ipus = topology.GROUPS[hardware_id]
        for ipu in ipus if exclusive else ():
            other = users.setdefault(ipu, ordinal)
            if other != ordinal:
                raise errors.ResourceExhaustedError(
                    None,
                    None,
                    f"Could not attach to the device with ID {hardware_id} for "
                    f"/device:IPU:{ordinal}: IPU {ipu} is in use by "
                    f"/device:IPU:{other}.",
                )
        groups.append((len(ipus), ipus, hardware_id))
    return groups
