"""IPUConfig: all options of the IPUs, to be set before a program runs.

Setting an attribute has no effect until `configure_ipu_system`. docs/configuration.md lists
the effect of each in the simulator, and those that are only recorded. The tree itself is in
tree.py. Errors of conflicting attributes have Graphcore's text where it exists.

Source: names, types and defaults follow `tensorflow/python/ipu/config.py` in
graphcore/tensorflow.
"""

from __future__ import annotations

from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.device.config.categories import (
    ConvolutionConfig,
    DeviceConnectionConfig,
    ExperimentalConfig,
    FloatingPointBehaviourConfig,
    IOTilesConfig,
    IPUDeviceModelConfig,
    MatmulConfig,
    NormConfig,
    OptimizationConfig,
    PoolingConfig,
    SchedulingConfig,
    SliceConfig,
)
from ipufeed.device.config.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipufeed.device.config.metadata import AttributeMetadata
from ipufeed.device.config.tree import Category
from ipufeed.device.config.types import check_poplar_options
from ipufeed.errors import ConfigError

__all__ = [
    "AttributeMetadata",
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
]


# Tiles of an IPU, by the version of the hardware.
TILES = {"ipu1": 1216, "ipu2": 1472, "ipu21": 1472}
DEFAULT_VERSION = "ipu2"
MOST_TILES = 2**16  # of an IPU of the IPU Model
MOST_PROCESSES = 2**31 - 1


class IPUConfig(Category):
    """All options of the IPUs, to be set before a program runs.

        config = IPUConfig()
        config.auto_select_ipus = [1, 2]
        config.configure_ipu_system()

    Attributes:
        auto_select_ipus: The number of IPUs of each virtual device: 2 is one device of
            two IPUs, [1, 2] two devices. Default: []; if `select_ipus` is empty too, one
            device of one IPU.
        select_ipus: Hardware ID of each virtual device; 0 to 15 are single IPUs, 16 to
            30 groups of them (device/system/topology.py). Default: [].
        selection_order: The assignment of a device's IPUs to shards. Default: AUTO.
        allow_recompute: Recompute activations instead of storing them. Default: False.
        compilation_poplar_options: Options of the engine, by name. Default: none.
        gcl_poplar_options: Options of collectives, by name. Default: none.
        serialization_output_folder: The folder to write compiled programs to. Default:
            "", none.
        convolutions: Convolutions.
        device_connection: When to attach, and the hardware to compile for.
        experimental: Experimental options.
        floating_point_behaviour: The floating-point events that stop a program.
        io_tiles: Tiles that only move data.
        ipu_model: The IPU Model.
        matmuls: Matrix products.
        norms: Normalisations.
        optimizations: Optimisations.
        pooling: Pooling.
        scheduling: The order of instructions.
        slices: Slices and embedding lookups.

    Raises, when an attribute is set:
        ValueError: No attribute has that name.
        TypeError: The value is not of its type.
        ConfigError: It is a category.

    Threads: not safe. The system keeps a copy, so that later changes have no effect until
    they are configured.
    """

    auto_select_ipus: int | list[int] | tuple[int, ...] = []
    select_ipus: int | list[int] | tuple[int, ...] = []
    selection_order: SelectionOrder = SelectionOrder.AUTO
    allow_recompute: bool = False
    compilation_poplar_options: dict[str, Any] = {}
    gcl_poplar_options: dict[str, Any] = {}
    serialization_output_folder: str = ""
    convolutions: ConvolutionConfig
    device_connection: DeviceConnectionConfig
    experimental: ExperimentalConfig
    floating_point_behaviour: FloatingPointBehaviourConfig
    io_tiles: IOTilesConfig
    ipu_model: IPUDeviceModelConfig
    matmuls: MatmulConfig
    norms: NormConfig
    optimizations: OptimizationConfig
    pooling: PoolingConfig
    scheduling: SchedulingConfig
    slices: SliceConfig

    @flags_checked
    def validate(self, use_ipu_model: bool = False) -> None:
        """Checks the attributes together; `configure_ipu_system` does it too.

        Args:
            use_ipu_model: Check for the IPU Model instead of hardware. Default: False.

        Raises:
            ConfigError: The selections of IPUs exclude each other.
            ValueError: A number is out of range, or a required one is missing.
            TypeError: An item of a list, or an option of one of Poplar's libraries, is of
                a wrong type.
        """
        check(self, use_ipu_model)

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Configures the system with this config: see `system.configure_ipu_system`."""
        # Imported at use: the system module imports this one.
        from ipufeed.device.system import system

        system.configure_ipu_system(self, device)


def is_set(selection: int | list[int] | tuple[int, ...]) -> bool:
    """Returns whether IPUs were selected. 0 is a selection: of the IPU with ID 0."""
    return isinstance(selection, int) or len(selection) > 0


def as_tuple(selection: int | list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """Returns a selection as one number for each virtual device."""
    return (selection,) if isinstance(selection, int) else tuple(selection)


def tiles_per_ipu(config: IPUConfig, use_ipu_model: bool) -> int:
    """Returns the number of tiles of each IPU."""
    if not use_ipu_model:
        return TILES[config.device_connection.version or DEFAULT_VERSION]
    return config.ipu_model.tiles_per_ipu or TILES[config.ipu_model.version]


def check(config: IPUConfig, use_ipu_model: bool) -> None:
    """Raises the errors of `IPUConfig.validate`."""
    # Lists and dicts may have been changed in place since they were checked.
    for metadata, value in config.attributes():
        metadata.check_type(value)
        # Both may also be lists: _check_selection.
        if isinstance(value, int) and not metadata.name.endswith("select_ipus"):
            _require_at_least(metadata.name, value, 0)
        if isinstance(value, dict):
            check_poplar_options(metadata.name, value)
    _check_selection(config, use_ipu_model)
    _check_norms(config)
    _check_versions(config, use_ipu_model)
    _check_io_tiles(config, use_ipu_model)
    _check_replicas(config, use_ipu_model)


def _require_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")


def _require_at_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise ValueError(f"{name} must be in [0, {most}], got {value}.")


def _check_selection(config: IPUConfig, use_ipu_model: bool) -> None:
    if is_set(config.auto_select_ipus) and is_set(config.select_ipus):
        raise ConfigError(
            "Only one of `auto_select_ipus` and `select_ipus` can be set."
        )
    indices = as_tuple(config.select_ipus)
    if len(set(indices)) != len(indices):
        raise ValueError("All MultiIPU indices in `select_ipus` must be unique.")
    if use_ipu_model and is_set(config.select_ipus):
        raise ConfigError(
            "When using the IPUModel, the devices to attach to can only be specified "
            "with `auto_select_ipus`."
        )
    for count in as_tuple(config.auto_select_ipus):
        _require_at_least("Each number of IPUs in auto_select_ipus", count, 1)


def _check_norms(config: IPUConfig) -> None:
    group = config.norms.experimental.distributed_batch_norm_replica_group_size
    if config.io_tiles.num_io_tiles > 0 and group > 1:
        raise ValueError(
            "norms.experimental.distributed_batch_norm_replica_group_size is not "
            "supported with I/O tiles."
        )


def _check_versions(config: IPUConfig, use_ipu_model: bool) -> None:
    connection = config.device_connection
    offline = (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
    if connection.type in offline and not connection.version:
        raise ValueError(
            "device_connection.version must be set when device_connection.type is "
            "DeviceConnectionType.NEVER or DeviceConnectionType.PRE_COMPILE"
        )
    if use_ipu_model and not config.ipu_model.version:
        raise ValueError("ipu_model.version must be set when using the IPUModel.")
    _require_at_most(
        "ipu_model.tiles_per_ipu", config.ipu_model.tiles_per_ipu, MOST_TILES
    )
    for category in ("device_connection", "ipu_model"):
        version = getattr(config, category).version
        if version and version not in TILES:
            raise ValueError(
                f"{category}.version must be one of {', '.join(map(repr, TILES))} "
                f"or empty, got {version!r}."
            )


def _check_io_tiles(config: IPUConfig, use_ipu_model: bool) -> None:
    io_tiles = config.io_tiles
    if io_tiles.place_ops_on_io_tiles and io_tiles.num_io_tiles == 0:
        raise ValueError(
            "Cannot place ops on I/O tiles when io_tiles.num_io_tiles == 0"
        )
    tiles = tiles_per_ipu(config, use_ipu_model)
    if io_tiles.num_io_tiles >= tiles:
        raise ValueError(
            f"io_tiles.num_io_tiles must be less than the {tiles} tiles of an IPU, "
            f"got {io_tiles.num_io_tiles}."
        )
    if not 0 <= io_tiles.available_memory_proportion <= 1:
        raise ValueError(
            "io_tiles.available_memory_proportion must be in [0, 1], "
            f"got {io_tiles.available_memory_proportion}."
        )


def _check_replicas(config: IPUConfig, use_ipu_model: bool) -> None:
    distribution = config.experimental.multi_replica_distribution
    count, index = distribution.process_count, distribution.process_index
    name = "experimental.multi_replica_distribution"
    _require_at_most(f"{name}.process_count", count, MOST_PROCESSES)
    if count and use_ipu_model:
        raise ConfigError(
            "Multi-replica distribution is not supported on the IPU model."
        )
    if count and index >= count:
        raise ValueError(
            f"{name}.process_index must be in the range [0, {name}.process_count), got "
            f"{index} of {count}."
        )
    _require_at_least(
        "norms.experimental.distributed_batch_norm_replica_group_size",
        config.norms.experimental.distributed_batch_norm_replica_group_size,
        1,
    )
