"""The categories of IPUConfig: options of the parts of the IPUs and of the compiler.

Names, types and defaults are Graphcore's, as in config.py.
"""

from __future__ import annotations

from typing import Annotated, Any

from ipufeed.device.config.enums import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    StochasticRoundingBehaviour,
)
from ipufeed.device.config.metadata import Deprecated
from ipufeed.device.config.tree import Category


class ConvolutionConfig(Category):
    """Convolutions.

    Attributes:
        poplar_options: Options of the convolutions, by name. Default: none.
    """

    poplar_options: dict[str, Any] = {}


class DeviceConnectionConfig(Category):
    """The time of attaching, and the hardware to compile for without attaching.

    Attributes:
        version: The hardware to compile for without attaching: "ipu1", "ipu2" or
            "ipu21". Default: "", allowed if `type` attaches.
        type: When to attach. Default: ALWAYS.
        enable_remote_buffers: Whether the hardware to compile for has remote buffers.
            Ignored if `type` attaches: see `system.has_remote_buffers`. Default: False.
    """

    version: str = ""
    type: DeviceConnectionType = DeviceConnectionType.ALWAYS
    enable_remote_buffers: bool = False


class MultiReplicaDistributionConfig(Category):
    """Replicas of one program in several processes.

    Attributes:
        process_count: The number of processes, in [0, 2**31). Default: 0, not distributed.
        process_index: The index of this process, in [0, process_count); not used without
            a count. Default: 0.
    """

    process_count: int = 0
    process_index: int = 0


class ExperimentalConfig(Category):
    """Experimental options.

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
    """The floating-point events that stop a program, and the rounding of results.

    Attributes:
        inv: Stop at an invalid operation. Default: False.
        div0: Stop at a division by zero. Default: False.
        oflo: Stop at an overflow. Default: False.
        esr: Stochastic rounding; a bool means ON or OFF. Default: OFF.
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
        num_io_tiles: The number of such tiles of each IPU. An odd number is rounded up.
            Default: 0.
        place_ops_on_io_tiles: Also place operations on them. Default: False.
        available_memory_proportion: The fraction of their memory for data, in [0, 1].
            Default: 0.9.
    """

    num_io_tiles: int = 0
    place_ops_on_io_tiles: bool = False
    available_memory_proportion: float = 0.9


class IPUDeviceModelConfig(Category):
    """The IPU Model, selected with `TF_POPLAR_FLAGS=--use_ipu_model`.

    Attributes:
        compile_ipu_code: Also compile the code for an IPU. Default: True.
        tiles_per_ipu: In [0, 65536]. Default: 0, the version's number of tiles.
        version: "ipu1", "ipu2" or "ipu21". Default: "ipu2".
    """

    compile_ipu_code: bool = True
    tiles_per_ipu: int = 0
    version: str = "ipu2"


class MatmulConfig(Category):
    """Matrix products.

    Attributes:
        clear_pass_type: Do not pass to the library whether a product is of the forward
            pass. Default: False.
        poplar_options: Options of the products, by name. Default: none.
    """

    clear_pass_type: bool = False
    poplar_options: dict[str, Any] = {}


class NormExperimentalConfig(Category):
    """Experimental options of normalisations.

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
        experimental: Experimental options of normalisations.
    """

    use_stable_statistics: bool = False
    experimental: NormExperimentalConfig


class MathConfig(Category):
    """Arithmetic that may be rearranged.

    Attributes:
        fast: Allow rearrangements that change rounding. Default: False.
        dot_strength: Replace products without a contraction by element-wise ones.
            Default: True.
    """

    fast: bool = False
    dot_strength: bool = True


class OptimizationConfig(Category):
    """Optimisations. All sizes are in bytes; a maximum of 0 merges nothing.

    Attributes:
        math: Arithmetic that may be rearranged.
        prefetch_data_streams: Fetch infeed data before the program needs it. Default:
            True.
        combine_embedding_lookups: Default: False.
        combine_matmuls: Default: False.
        enable_graph_outlining: Compile repeated code once. Default: True.
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
