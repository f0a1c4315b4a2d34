"""IPUConfig: everything that can be said of the IPUs before a program runs.

Setting an attribute has no effect until `configure_ipu_system`. What each does in the
simulator, and which are only recorded, is in docs/configuration.md. The tree itself is
tree.py. What may not go together has the original's words where it has some.

Source: names, types and defaults follow `tensorflow/python/ipu/config.py` in
graphcore/tensorflow.
"""

from __future__ import annotations

from typing import Annotated, Any

from ipufeed.device.config.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipufeed.device.config.metadata import AttributeMetadata, Deprecated
from ipufeed.device.config.tree import Category
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


class ConvolutionConfig(Category):
    """Convolutions.

    Attributes:
        poplar_options: Options of the convolutions, by name. Default: none.
    """

    poplar_options: dict[str, Any] = {}


class DeviceConnectionConfig(Category):
    """When to attach, and to what.

    Attributes:
        version: Of the hardware that is compiled for without being attached: "ipu1",
            "ipu2" or "ipu21". Default: "", allowed if `type` attaches.
        type: When to attach. Default: ALWAYS.
        enable_remote_buffers: Whether the hardware compiled for has remote buffers.
            Ignored if `type` is one that attaches: `system.has_remote_buffers`. Default:
            False.
    """

    version: str = ""
    type: DeviceConnectionType = DeviceConnectionType.ALWAYS
    enable_remote_buffers: bool = False


class MultiReplicaDistributionConfig(Category):
    """Replicas of one program in several processes.

    Attributes:
        process_count: Processes. Default: 0, not distributed.
        process_index: This process, in [0, process_count). Default: 0.
    """

    process_count: int = 0
    process_index: int = 0


class ExperimentalConfig(Category):
    """What may change.

    Attributes:
        always_rearrange_copies_on_the_host: Lay data out on the host, not on the device.
            Default: False.
        enable_remote_buffer_embedding: Host embeddings use remote buffers.
            Default: False.
        enable_prng_stability: Keep replicas' random numbers together under stochastic
            rounding. Default: False.
        multi_replica_distribution: Replicas in several processes.
    """

    always_rearrange_copies_on_the_host: bool = False
    enable_remote_buffer_embedding: bool = False
    enable_prng_stability: bool = False
    multi_replica_distribution: MultiReplicaDistributionConfig


class FloatingPointBehaviourConfig(Category):
    """Which floating-point events stop a program, and how results are rounded.

    Attributes:
        inv: Stop at an invalid operation. Default: False.
        div0: Stop at a division by zero. Default: False.
        oflo: Stop at an overflow. Default: False.
        esr: Stochastic rounding; a bool is understood as ON or OFF. Default: OFF.
        nanoo: NaN on overflow of float16, instead of the largest number.
            Default: False.
        set_all: As if all of them were True, `esr` ON. Default: False.
    """

    inv: bool = False
    div0: bool = False
    oflo: bool = False
    esr: StochasticRoundingBehaviour = StochasticRoundingBehaviour.OFF
    nanoo: bool = False
    set_all: bool = False


class IOTilesConfig(Category):
    """Tiles that only move data.

    Attributes:
        num_io_tiles: Tiles of each IPU set aside for it. An odd number is rounded up.
            Default: 0.
        place_ops_on_io_tiles: Also put operations on them. Default: False.
        available_memory_proportion: Share of their memory that data may take, in
            [0, 1]. Default: 0.9.
    """

    num_io_tiles: int = 0
    place_ops_on_io_tiles: bool = False
    available_memory_proportion: float = 0.9


class IPUDeviceModelConfig(Category):
    """The IPU Model, which `TF_POPLAR_FLAGS=--use_ipu_model` asks for.

    Attributes:
        compile_ipu_code: Also compile what an IPU would run. Default: True.
        tiles_per_ipu: Default: 0, as many as the version has.
        version: "ipu1", "ipu2" or "ipu21". Default: "ipu2".
    """

    compile_ipu_code: bool = True
    tiles_per_ipu: int = 0
    version: str = "ipu2"


class MatmulConfig(Category):
    """Matrix products.

    Attributes:
        clear_pass_type: Do not tell the library whether a product is of the forward
            pass. Default: False.
        poplar_options: Options of the products, by name. Default: none.
    """

    clear_pass_type: bool = False
    poplar_options: dict[str, Any] = {}


class NormExperimentalConfig(Category):
    """What may change.

    Attributes:
        distributed_batch_norm_replica_group_size: Replicas whose batch statistics are
            averaged. Default: 1.
    """

    distributed_batch_norm_replica_group_size: int = 1


class NormConfig(Category):
    """Normalisations.

    Attributes:
        use_stable_statistics: Subtract the mean before the variance is computed.
            Slower. Default: False.
        experimental: What may change.
    """

    use_stable_statistics: bool = False
    experimental: NormExperimentalConfig


class MathConfig(Category):
    """Arithmetic that may be rearranged.

    Attributes:
        fast: Allow rearrangements that change rounding. Default: False.
        dot_strength: Turn products without a contraction into element-wise ones.
            Default: True.
    """

    fast: bool = False
    dot_strength: bool = True


class OptimizationConfig(Category):
    """Optimisations. All sizes are in bytes; a maximum of 0 merges nothing.

    Attributes:
        math: Arithmetic that may be rearranged.
        prefetch_data_streams: Fetch infeed data before it is asked for. Default: True.
        combine_embedding_lookups: Default: False.
        combine_matmuls: Default: False.
        enable_graph_outlining: Compile what repeats once. Default: True.
        merge_infeed_io_copies: One copy for all tensors of an element. Default: True.
        maximum_cross_replica_sum_buffer_size: Default: 0.
        maximum_reduce_scatter_buffer_size: Default: 0.
        maximum_inter_ipu_copies_buffer_size: Default: 0.
        maximum_send_recv_cluster_size: Default: 0.
        maximum_reduce_many_buffer_size: Default: 0.
        maximum_all_gather_buffer_size: Default: 0.
        minimum_remote_tensor_size: Smaller tensors are not put in remote memory.
            Default: 128.
        merge_remote_buffers: Default: IF_BENEFICIAL.
        enable_gather_simplifier: Default: True.
        triangular_solve_expander_block_size: Default: 0, which lets the compiler choose.
        cholesky_block_size: Default: 0, which lets the compiler choose.
        enable_fast_math: Deprecated: `math.fast`. Default: False.
        enable_dynamic_slice_replacement: Default: True.
    """

    math: MathConfig
    prefetch_data_streams: bool = True
    combine_embedding_lookups: bool = False
    combine_matmuls: bool = False
    enable_graph_outlining: bool = True
    merge_infeed_io_copies: bool = True
    maximum_cross_replica_sum_buffer_size: int = 0
    maximum_reduce_scatter_buffer_size: int = 0
    maximum_inter_ipu_copies_buffer_size: int = 0
    maximum_send_recv_cluster_size: int = 0
    maximum_reduce_many_buffer_size: int = 0
    maximum_all_gather_buffer_size: int = 0
    minimum_remote_tensor_size: int = 128
    merge_remote_buffers: MergeRemoteBuffersBehaviour = (
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL
    )
    enable_gather_simplifier: bool = True
    triangular_solve_expander_block_size: int = 0
    cholesky_block_size: int = 0
    enable_fast_math: Annotated[
        bool, Deprecated("use optimizations.math.fast instead.")
    ] = False
    enable_dynamic_slice_replacement: bool = True


class PoolingConfig(Category):
    """Pooling.

    Attributes:
        poplar_options: Options of the pooling, by name. Default: none.
    """

    poplar_options: dict[str, Any] = {}


class SchedulingConfig(Category):
    """The order of instructions.

    Attributes:
        algorithm: Default: CHOOSE_BEST.
        maximum_scheduler_lookahead_depth: Default: 5.
        maximum_scheduler_search_space_size: Default: 64.
    """

    algorithm: SchedulingAlgorithm = SchedulingAlgorithm.CHOOSE_BEST
    maximum_scheduler_lookahead_depth: int = 5
    maximum_scheduler_search_space_size: int = 64


class SliceConfig(Category):
    """Slices and embedding lookups.

    Attributes:
        poplar_options: Options of the slices, by name. Default: none.
    """

    poplar_options: dict[str, Any] = {}


class IPUConfig(Category):
    """Everything that can be said of the IPUs before a program runs.

        config = IPUConfig()
        config.auto_select_ipus = [1, 2]
        config.configure_ipu_system()

    Attributes:
        auto_select_ipus: IPUs of each virtual device: 2 is one device of two IPUs,
            [1, 2] two devices. Default: []; with `select_ipus` empty too that is one
            device of one IPU.
        select_ipus: Hardware ID of each virtual device; 0 to 15 are single IPUs, 16 to
            30 groups of them (device/topology.py). Default: [].
        selection_order: Which IPU of a device is which shard's. Default: AUTO.
        allow_recompute: Recompute activations instead of keeping them. Default: False.
        compilation_poplar_options: Options of the engine, by name. Default: none.
        gcl_poplar_options: Options of collectives, by name. Default: none.
        serialization_output_folder: Where compiled programs are written. Default: "",
            nowhere.
        convolutions: Convolutions.
        device_connection: When to attach, and to what.
        experimental: What may change.
        floating_point_behaviour: Which floating-point events stop a program.
        io_tiles: Tiles that only move data.
        ipu_model: The IPU Model.
        matmuls: Matrix products.
        norms: Normalisations.
        optimizations: Optimisations.
        pooling: Pooling.
        scheduling: The order of instructions.
        slices: Slices and embedding lookups.

    Raises, when an attribute is set:
        ValueError: there is none of that name.
        TypeError: the value is not of its type.
        ConfigError: it is a category.

    Threads: not safe. What has been configured is a copy, so that later changes affect
    nothing until they are configured themselves.
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

    def validate(self, use_ipu_model: bool = False) -> None:
        """Checks what single attributes cannot know; `configure_ipu_system` does it too.

        Args:
            use_ipu_model: Check for the IPU Model instead of hardware. Default: False.

        Raises:
            ConfigError: the selections of IPUs exclude each other.
            ValueError: a number is out of range, or a needed one is missing.
            TypeError: something of a wrong type was put into a list.
        """
        check(self, use_ipu_model)

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Makes the system as this config says: see `system.configure_ipu_system`."""
        # Imported at use: the system is made of configs, not the other way round.
        from ipufeed.device.system import system

        system.configure_ipu_system(self, device)


def is_set(selection: int | list[int] | tuple[int, ...]) -> bool:
    """Whether IPUs were selected. 0 is a selection: of the IPU with ID 0."""
    return isinstance(selection, int) or len(selection) > 0


def as_tuple(selection: int | list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """A selection with one number for each virtual device."""
    return (selection,) if isinstance(selection, int) else tuple(selection)


def tiles_per_ipu(config: IPUConfig, use_ipu_model: bool) -> int:
    """Tiles of each IPU that the config asks for."""
    if not use_ipu_model:
        return TILES[config.device_connection.version or DEFAULT_VERSION]
    return config.ipu_model.tiles_per_ipu or TILES[config.ipu_model.version]


def check(config: IPUConfig, use_ipu_model: bool) -> None:
    """Raises what `IPUConfig.validate` says."""
    # Lists and dicts may have been changed in place since they were checked.
    for metadata, value in config.attributes():
        metadata.check_type(value)
        if isinstance(value, int) and metadata.name != "select_ipus":
            _require_at_least(metadata.name, value, 0)
    _check_selection(config, use_ipu_model)
    _check_versions(config, use_ipu_model)
    _check_io_tiles(config, use_ipu_model)
    _check_replicas(config)


def _require_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")


def _check_selection(config: IPUConfig, use_ipu_model: bool) -> None:
    if is_set(config.auto_select_ipus) and is_set(config.select_ipus):
        raise ConfigError(
            "Only one of `auto_select_ipus` and `select_ipus` can be set."
        )
    if use_ipu_model and is_set(config.select_ipus):
        raise ConfigError(
            "When using the IPUModel, the devices to attach to can only be specified "
            "with `auto_select_ipus`."
        )
    indices = as_tuple(config.select_ipus)
    if len(set(indices)) != len(indices):
        raise ValueError("All MultiIPU indices in `select_ipus` must be unique.")
    for count in as_tuple(config.auto_select_ipus):
        _require_at_least("Each number of IPUs in auto_select_ipus", count, 1)


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
            "Cannot place ops on I/O tiles when io_tiles.num_io_tiles is 0."
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


def _check_replicas(config: IPUConfig) -> None:
    distribution = config.experimental.multi_replica_distribution
    count, index = distribution.process_count, distribution.process_index
    if index >= max(count, 1):
        raise ValueError(
            "experimental.multi_replica_distribution.process_index must be less than "
            f"process_count, got {index} of {count}."
        )
    _require_at_least(
        "norms.experimental.distributed_batch_norm_replica_group_size",
        config.norms.experimental.distributed_batch_norm_replica_group_size,
        1,
    )
