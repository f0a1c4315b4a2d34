"""The attributes of IPUConfig that are checked and recorded without an effect -> why.

Also the flags of TF_POPLAR_FLAGS without an effect, and the arguments of the older style
that IPUConfig does not have. docs/configuration.md lists them.
"""

from __future__ import annotations

import dataclasses
import logging
import os

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags import environment
from ipufeed.device.flags.flags import Flags
from ipufeed.no_effect import no_effect

_LIBRARIES = (
    "it has none of Poplar's libraries, and XLA compiles its programs for the CPU"
)
_CODE = "XLA compiles its programs for the CPU and decides this itself"
_MEMORY = "its memory is the host's, and copies are neither merged nor split"
_FLOATS = (
    "it computes as the CPU does: no event stops a program, results are rounded to "
)
_FLOATS += "nearest, and an overflow is infinity"

ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(
        (
            "gcl_poplar_options",
            "convolutions.poplar_options",
            "matmuls.poplar_options",
            "pooling.poplar_options",
            "slices.poplar_options",
            "matmuls.clear_pass_type",
        ),
        _LIBRARIES,
    ),
    **dict.fromkeys(
        (
            "optimizations.combine_embedding_lookups",
            "optimizations.combine_matmuls",
            "optimizations.enable_graph_outlining",
            "optimizations.enable_gather_simplifier",
            "optimizations.enable_dynamic_slice_replacement",
            "optimizations.triangular_solve_expander_block_size",
            "optimizations.cholesky_block_size",
            "optimizations.math.fast",
            "optimizations.math.dot_strength",
            "optimizations.enable_fast_math",
            "norms.use_stable_statistics",
            "scheduling.algorithm",
            "scheduling.maximum_scheduler_lookahead_depth",
            "scheduling.maximum_scheduler_search_space_size",
        ),
        _CODE,
    ),
    **dict.fromkeys(
        (
            "optimizations.merge_infeed_io_copies",
            "optimizations.merge_remote_buffers",
            "optimizations.minimum_remote_tensor_size",
            "optimizations.maximum_cross_replica_sum_buffer_size",
            "optimizations.maximum_reduce_scatter_buffer_size",
            "optimizations.maximum_inter_ipu_copies_buffer_size",
            "optimizations.maximum_send_recv_cluster_size",
            "optimizations.maximum_reduce_many_buffer_size",
            "optimizations.maximum_all_gather_buffer_size",
            "experimental.always_rearrange_copies_on_the_host",
            "experimental.enable_remote_buffer_embedding",
            "io_tiles.place_ops_on_io_tiles",
            "io_tiles.available_memory_proportion",
        ),
        _MEMORY,
    ),
    **dict.fromkeys(
        (
            "floating_point_behaviour.inv",
            "floating_point_behaviour.div0",
            "floating_point_behaviour.oflo",
            "floating_point_behaviour.esr",
            "floating_point_behaviour.nanoo",
            "floating_point_behaviour.set_all",
            "experimental.enable_prng_stability",
        ),
        _FLOATS,
    ),
    "optimizations.prefetch_data_streams": (
        "elements are always fetched ahead, up to the infeed queue's `prefetch_depth`"
    ),
    "norms.experimental.distributed_batch_norm_replica_group_size": (
        "batch statistics are each replica's own; average them with cross_replica_mean"
    ),
}

FLAGS: dict[str, str] = {
    "while_loop_brute_force_max_trip_count": _CODE,
    "fallback_scheduler": _CODE,
    "allow_nans": _CODE,
    "enable_hlo_verifier": _CODE,
    "dump_schedule_as_dot": _CODE,
    "tensor_map_file_path": "its tensors lie on no tiles",
    "save_vertex_graph": "its programs have no vertices",
    "sync_replica_start": "replicas of several processes wait for each other where they "
    "exchange tensors",
    "disable_poplar_version_check": "there is no Poplar whose version could be checked",
    "max_compilation_threads": "TensorFlow's thread pools compile",
    "on_demand_device_poll_time": "no simulated IPU is ever busy",
    "on_demand_device_timeout": "no simulated IPU is ever busy",
}


def warn_of_attributes(config: IPUConfig, defaults: IPUConfig) -> None:
    """Warns of each attribute that was set and has no effect."""
    plain = {meta.name: value for meta, value in defaults.attributes()}
    for meta, value in config.attributes():
        if meta.name in ATTRIBUTES and value != plain[meta.name]:
            no_effect(f"IPUConfig.{meta.name}", ATTRIBUTES[meta.name])


def warn_of_flags(flags: Flags) -> None:
    """Warns of each flag that was set and has no effect."""
    for field in dataclasses.fields(Flags):
        if field.name in FLAGS and getattr(flags, field.name) != field.default:
            no_effect(f"TF_POPLAR_FLAGS --{field.name}", FLAGS[field.name])


def warn_of_environment() -> None:
    """Warns of options of Poplar's targets and runtime, and of an unknown log level.

    All of these are environment variables.

    Raises:
        ValueError: A variable is not a JSON object.
    """
    for variable, options, part in (
        ("POPLAR_TARGET_OPTIONS", environment.poplar_target_options(), "target"),
        ("POPLAR_RUNTIME_OPTIONS", environment.poplar_runtime_options(), "runtime"),
    ):
        for name in options:
            no_effect(f"{variable} {name}", f"there is no Poplar {part}")
    level = os.environ.get("POPLAR_LOG_LEVEL", "")
    if level and level.upper() not in environment.LOG_LEVELS:
        logging.getLogger("ipufeed").warning(
            "POPLAR_LOG_LEVEL must be one of %s, got %r: no phase is logged.",
            ", ".join(environment.LOG_LEVELS),
            level,
        )


REPORTS = (
    "reports are written as POPLAR_ENGINE_OPTIONS and `compilation_poplar_options` select "
    "(autoReport.*)"
)

# Arguments of create_ipu_config and of the functions that change its options -> why.
RECORDED: dict[str, str] = {
    **dict.fromkeys(
        (
            "profiling",
            "enable_ipu_events",
            "use_poplar_text_report",
            "use_poplar_cbor_report",
            "profile_execution",
            "enable_poplar_serialized_graph",
            "report_every_nth_execution",
            "max_report_size",
            "report_directory",
            "report_options",
            "graph_options",
            "execution_options",
        ),
        REPORTS,
    ),
    "disable_graph_convolution_caching": _CODE,
    "retain_control_dependencies": _CODE,
    **dict.fromkeys(
        ("use_verified_transfers", "verification_options"),
        "a simulated transfer cannot go wrong",
    ),
    "allow_stateful_recompute": "results of stateful operations are always kept",
}


def warn_of_argument(function: str, name: str, value: object, default: object) -> None:
    """Warns of an argument of the older style that was set and has no effect."""
    if value != default:
        no_effect(f"{function}({name}=)", RECORDED[name])
