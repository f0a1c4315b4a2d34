"""The older style of configuration: functions that take options and return them.

    opts = create_ipu_config()
    opts = auto_select_ipus(opts, 1)
    configure_ipu_system(opts)

The functions change their argument `opts` and return it. A value of a wrong type is refused
by the attribute of IPUConfig that it sets.

Source: names, order and defaults follow `tensorflow/python/ipu/utils.py` of the releases
2.0 to 2.4 of graphcore/tensorflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.checks import as_int, flags_checked
from ipufeed.device.config.config import IPUConfig, is_set
from ipufeed.device.config.enums import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
)
from ipufeed.device.config.no_effect import warn_of_argument
from ipufeed.device.config.options_object import (
    IpuOptions,
    add_options,
    as_options,
    require_type,
)
from ipufeed.device.config.verification import VerificationOptions
from ipufeed.device.flags.flags import running_on_ipu_model
from ipufeed.errors import ConfigError


def auto_select_ipus(
    opts: IpuOptions, num_ipus: int | list[int] | tuple[int, ...]
) -> IpuOptions:
    """Sets the number of IPUs of each device; [1, 2] is two devices.

    Raises:
        ConfigError: IPUs have been selected already, or `num_ipus` is not an int, list or
            tuple.
    """
    config = _unselected(opts)
    if isinstance(num_ipus, bool) or not (
        isinstance(num_ipus, list | tuple) or hasattr(num_ipus, "__index__")
    ):
        raise ConfigError("`num_ipus` must be an integer, list or tuple.")
    config.auto_select_ipus = num_ipus
    return opts


def select_ipus(opts: IpuOptions, indices: list[int] | tuple[int, ...]) -> IpuOptions:
    """Sets the hardware IDs of the devices; an int is one device.

    Raises:
        ConfigError: IPUs have been selected already, the IPU Model is in use, `indices`
            is not an int, list or tuple, or contains an ID twice.
    """
    config = _unselected(opts)
    if running_on_ipu_model():
        raise ConfigError(
            "When using the IPUModel, the devices to attach to can only be specified "
            "with `auto_select_ipus`."
        )
    if isinstance(indices, list | tuple):
        if len(set(indices)) != len(indices):
            raise ConfigError("All device indices in `indices` must be unique.")
    elif isinstance(indices, bool) or not hasattr(indices, "__index__"):
        raise ConfigError("`indices` must be an integer, list or tuple.")
    config.select_ipus = indices
    return opts


def _unselected(opts: IpuOptions) -> IPUConfig:
    config = as_options(opts).config
    if is_set(config.auto_select_ipus) or is_set(config.select_ipus):
        raise ConfigError("IPU devices have already been configured.")
    return config


@flags_checked
def set_ipu_connection_type(
    opts: IpuOptions,
    connection_type: DeviceConnectionType | None = None,
    ipu_version: int | None = None,
    enable_remote_buffers: bool = False,
) -> IpuOptions:
    """Sets when to attach, and the hardware to compile for.

    Args:
        opts: The options.
        connection_type: Default: None, which is ALWAYS.
        ipu_version: 1, 2 or 21; required for NEVER and PRE_COMPILE. Default: None.
        enable_remote_buffers: Whether that hardware has remote buffers. Default: False.

    Raises:
        ConfigError: `ipu_version` is missing.
        TypeError: An argument is of a wrong type.
        ValueError: The version is unknown.
    """
    connection = as_options(opts).config.device_connection
    if connection_type is None:
        connection_type = DeviceConnectionType.ALWAYS
    kind = require_type("connection_type", connection_type, DeviceConnectionType)
    offline = (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
    if ipu_version is None and kind in offline:
        raise ConfigError(
            "`ipu_version` must be set when `connection_type` is set to "
            f"`{kind}`: it is 1, 2 or 21."
        )
    version = ""
    if ipu_version is not None:
        number = require_type("ipu_version", ipu_version, int)
        if number not in (1, 2, 21):
            raise ValueError(f"`ipu_version` must be 1, 2 or 21, got {number}.")
        version = f"ipu{number}"
    remote = require_type("enable_remote_buffers", enable_remote_buffers, bool)
    connection.type, connection.version = kind, version
    connection.enable_remote_buffers = remote
    return opts


@flags_checked
def set_ipu_model_options(
    opts: IpuOptions,
    compile_ipu_code: bool = True,
    tiles_per_ipu: int | None = None,
    ipu_model_version: str = "ipu1",
) -> IpuOptions:
    """Sets the options of the IPU Model; `tiles_per_ipu` None is the version's number."""
    model = as_options(opts).config.ipu_model
    model.compile_ipu_code = compile_ipu_code
    model.tiles_per_ipu = 0 if tiles_per_ipu is None else tiles_per_ipu
    model.version = ipu_model_version
    return opts


def set_serialization_options(opts: IpuOptions, output_folder: str = "") -> IpuOptions:
    """Sets the folder to write compiled programs to; "" is none."""
    as_options(opts).config.serialization_output_folder = output_folder
    return opts


@flags_checked
def set_optimization_options(
    opts: IpuOptions,
    combine_embedding_lookups: bool = False,
    combine_matmuls: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_send_recv_cluster_size: int = 0,
    minimum_remote_tensor_size: int = 128,
    merge_remote_buffers: MergeRemoteBuffersBehaviour = (
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL
    ),
    gather_simplifier: bool = False,
    triangular_solve_expander_block_size: int = 0,
    cholesky_block_size: int = 0,
    enable_fast_math: bool = False,
) -> IpuOptions:
    """Sets all of these optimisations; those that are not passed to their defaults."""
    target = as_options(opts).config.optimizations
    target.combine_embedding_lookups = combine_embedding_lookups
    target.combine_matmuls = combine_matmuls
    target.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    target.maximum_reduce_scatter_buffer_size = max_reduce_scatter_buffer_size
    target.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    target.maximum_send_recv_cluster_size = max_send_recv_cluster_size
    target.minimum_remote_tensor_size = minimum_remote_tensor_size
    target.merge_remote_buffers = merge_remote_buffers
    target.enable_gather_simplifier = gather_simplifier
    target.triangular_solve_expander_block_size = triangular_solve_expander_block_size
    target.cholesky_block_size = cholesky_block_size
    target.math.fast = enable_fast_math
    return opts


@flags_checked
def set_norm_options(
    opts: IpuOptions, use_stable_statistics: bool = False
) -> IpuOptions:
    """Sets how normalisations compute their statistics."""
    as_options(opts).config.norms.use_stable_statistics = use_stable_statistics
    return opts


@flags_checked
def set_transfer_options(
    opts: IpuOptions, use_verified_transfers: bool = False
) -> IpuOptions:
    """No effect, with a warning: a simulated transfer cannot go wrong."""
    warn_of_argument(
        "set_transfer_options", "use_verified_transfers", use_verified_transfers, False
    )
    as_options(opts).recorded["use_verified_transfers"] = require_type(
        "use_verified_transfers", use_verified_transfers, bool
    )
    return opts


def set_verification_options(
    opts: IpuOptions, verification_options: VerificationOptions
) -> IpuOptions:
    """No effect, with a warning: a simulated transfer cannot go wrong.

    Raises:
        TypeError: `verification_options` is not a VerificationOptions.
    """
    as_options(opts).recorded["verification_options"] = require_type(
        "verification_options", verification_options, VerificationOptions
    )
    warn_of_argument(
        "set_verification_options", "verification_options", verification_options, None
    )
    return opts


def set_compilation_options(
    opts: IpuOptions, compilation_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Adds options of the engine."""
    target = as_options(opts).config.compilation_poplar_options
    add_options(target, "compilation_options", compilation_options)
    return opts


def set_convolution_options(
    opts: IpuOptions, convolution_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Adds options of convolutions."""
    target = as_options(opts).config.convolutions.poplar_options
    add_options(target, "convolution_options", convolution_options)
    return opts


@flags_checked
def set_matmul_options(
    opts: IpuOptions,
    matmul_options: Mapping[str, Any] | None = None,
    clear_pass_type: bool = False,
) -> IpuOptions:
    """Adds options of matrix products, and sets `clear_pass_type`."""
    matmuls = as_options(opts).config.matmuls
    add_options(matmuls.poplar_options, "matmul_options", matmul_options)
    matmuls.clear_pass_type = clear_pass_type
    return opts


def set_pooling_options(
    opts: IpuOptions, pooling_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Adds options of pooling."""
    target = as_options(opts).config.pooling.poplar_options
    add_options(target, "pooling_options", pooling_options)
    return opts


def set_gcl_options(
    opts: IpuOptions,
    num_io_tiles: int | Mapping[str, Any] | None = 0,
    gcl_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Adds options of collectives.

    Args:
        opts: The options.
        num_io_tiles: Tiles that only move data, as in `set_io_tile_options`; 0: as they
            were set there. Later releases do not have it: options in its place are
            `gcl_options`.
        gcl_options: Name -> value.
    """
    if gcl_options is None and not isinstance(num_io_tiles, int):
        tiles, gcl_options = 0, num_io_tiles
    else:
        tiles = as_int("num_io_tiles", num_io_tiles)
    config = as_options(opts).config
    if tiles:
        config.io_tiles.num_io_tiles = tiles
    add_options(config.gcl_poplar_options, "gcl_options", gcl_options)
    return opts


def set_report_options(
    opts: IpuOptions,
    report_options: Mapping[str, Any] | None = None,
    graph_options: Mapping[str, Any] | None = None,
    execution_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Adds options of reports. No effect, with a warning: see docs/reports.md."""
    recorded = as_options(opts).recorded
    for name, added in (
        ("report_options", report_options),
        ("graph_options", graph_options),
        ("execution_options", execution_options),
    ):
        add_options(recorded.setdefault(name, {}), name, added)
        warn_of_argument("set_report_options", name, added or {}, {})
    return opts


@flags_checked
def set_recomputation_options(
    opts: IpuOptions,
    allow_recompute: bool = True,
    allow_stateful_recompute: bool | None = None,
) -> IpuOptions:
    """Allows recomputation; `allow_stateful_recompute` has no effect."""
    warn_of_argument(
        "set_recomputation_options",
        "allow_stateful_recompute",
        allow_stateful_recompute,
        None,
    )
    as_options(opts).config.allow_recompute = allow_recompute
    return opts


@flags_checked
def set_floating_point_behaviour_options(
    opts: IpuOptions,
    inv: bool = True,
    div0: bool = True,
    oflo: bool = True,
    esr: bool = True,
    nanoo: bool = True,
) -> IpuOptions:
    """Sets all of them; without arguments all are on."""
    behaviour = as_options(opts).config.floating_point_behaviour
    behaviour.inv = inv
    behaviour.div0 = div0
    behaviour.oflo = oflo
    behaviour.esr = esr  # type: ignore[assignment]  # a bool is converted
    behaviour.nanoo = nanoo
    return opts


@flags_checked
def set_io_tile_options(
    opts: IpuOptions,
    num_io_tiles: int,
    place_ops_on_io_tiles: bool | None = None,
    io_tile_available_memory_proportion: float = 0.9,
) -> IpuOptions:
    """Reserves tiles for moving data; `place_ops_on_io_tiles` None is False.

    Raises:
        ValueError: Operations are to be placed on 0 I/O tiles.
    """
    io_tiles = as_options(opts).config.io_tiles
    if place_ops_on_io_tiles and num_io_tiles == 0:
        raise ValueError("Cannot place ops on I/O tiles when num_io_tiles is 0.")
    io_tiles.num_io_tiles = num_io_tiles
    io_tiles.place_ops_on_io_tiles = bool(place_ops_on_io_tiles)
    io_tiles.available_memory_proportion = io_tile_available_memory_proportion
    return opts


def set_experimental_multi_replica_distribution_options(
    opts: IpuOptions, process_count: int, process_index: int
) -> IpuOptions:
    """Sets the number of the replicas' processes, and the index of this one."""
    target = as_options(opts).config.experimental.multi_replica_distribution
    target.process_count = process_count
    target.process_index = process_index
    return opts
