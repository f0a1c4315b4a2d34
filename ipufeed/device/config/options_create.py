"""create_ipu_config, the first function of the older style."""

from __future__ import annotations

from ipufeed.checks import as_count, flags_checked, is_flag
from ipufeed.device.config.enums import (
    ExecutionProfileType,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipufeed.device.config.no_effect import warn_of_argument
from ipufeed.device.config.options_object import IpuOptions, require_type
from ipufeed.errors import ConfigError

# Defaults of the arguments that are only recorded; those of the others are False.
_DEFAULTS = {
    "profile_execution": ExecutionProfileType.NO_PROFILE,
    "report_every_nth_execution": 0,
    "max_report_size": 0x10000000,
    "report_directory": "",
}
_SCHEDULERS = {
    "": SchedulingAlgorithm.CHOOSE_BEST,
    "ChooseBest": SchedulingAlgorithm.CHOOSE_BEST,
    "Clustering": SchedulingAlgorithm.CLUSTERING,
    "PostOrder": SchedulingAlgorithm.POST_ORDER,
    "LookAhead": SchedulingAlgorithm.LOOK_AHEAD,
    "ShortestPath": SchedulingAlgorithm.SHORTEST_PATH,
}


@flags_checked
def create_ipu_config(
    profiling: bool = False,
    enable_ipu_events: bool = False,
    use_poplar_text_report: bool = False,
    use_poplar_cbor_report: bool = False,
    profile_execution: bool | ExecutionProfileType | None = None,
    enable_poplar_serialized_graph: bool = False,
    report_every_nth_execution: int = 0,
    max_report_size: int = 0x10000000,
    report_directory: str = "",
    scheduler_selection: str = "",
    always_rearrange_copies_on_the_host: bool = False,
    merge_infeed_io_copies: bool = False,
    disable_graph_convolution_caching: bool = False,
    disable_graph_outlining: bool = False,
    retain_control_dependencies: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_scheduler_lookahead_depth: int = 5,
    max_scheduler_search_space_size: int = 64,
    prefetch_data_streams: bool = True,
    selection_order: SelectionOrder | None = None,
    enable_experimental_remote_buffer_embedding: bool = False,
) -> IpuOptions:
    """Returns options with the defaults of the older style.

    Arguments of profiling and reports have no effect, with a warning: see docs/reports.md
    for reports. The defaults of `merge_infeed_io_copies` (False), the IPU Model's version
    ("ipu1") and the gather simplifier (off) differ from those of IPUConfig (True, "ipu2"
    and on).

    Args:
        profiling: Collect compilation reports. Default: False.
        enable_ipu_events: Collect events without reports. Default: False.
        use_poplar_text_report: Reports as text. Default: False.
        use_poplar_cbor_report: Reports as CBOR. Default: False.
        profile_execution: Also profile execution; True is DEVICE_PROFILE. Needs
            `profiling`. Default: None.
        enable_poplar_serialized_graph: Serialise the graph. Default: False.
        report_every_nth_execution: 0: the first only. Default: 0.
        max_report_size: Bytes. Default: 0x10000000, 256 MiB.
        report_directory: Default: "".
        scheduler_selection: "Clustering", "PostOrder", "LookAhead" or "ShortestPath".
            Default: "", which chooses the best.
        always_rearrange_copies_on_the_host: Default: False.
        merge_infeed_io_copies: Default: False.
        disable_graph_convolution_caching: No effect. Default: False.
        disable_graph_outlining: Default: False.
        retain_control_dependencies: No effect. Default: False.
        max_cross_replica_sum_buffer_size: Bytes. Default: 0.
        max_inter_ipu_copies_buffer_size: Bytes. Default: 0.
        max_reduce_scatter_buffer_size: Bytes. Default: 0.
        max_scheduler_lookahead_depth: Default: 5.
        max_scheduler_search_space_size: Default: 64.
        prefetch_data_streams: Default: True.
        selection_order: Default: None, which is AUTO.
        enable_experimental_remote_buffer_embedding: Default: False.

    Raises:
        ConfigError: `profiling` and `enable_ipu_events` are both set, or
            `profile_execution` is set without `profiling`, or to another value.
        ValueError: The scheduler is unknown, or a number of reports is negative.
        TypeError: An argument is of a wrong type.
    """
    if profiling and enable_ipu_events:
        raise ConfigError("`profiling` and `enable_ipu_events` are mutually exclusive.")
    opts = IpuOptions()
    for name, value, kind in (
        ("profiling", profiling, bool),
        ("enable_ipu_events", enable_ipu_events, bool),
        ("use_poplar_text_report", use_poplar_text_report, bool),
        ("use_poplar_cbor_report", use_poplar_cbor_report, bool),
        ("enable_poplar_serialized_graph", enable_poplar_serialized_graph, bool),
        ("report_every_nth_execution", report_every_nth_execution, int),
        ("max_report_size", max_report_size, int),
        ("report_directory", report_directory, str),
        ("disable_graph_convolution_caching", disable_graph_convolution_caching, bool),
        ("retain_control_dependencies", retain_control_dependencies, bool),
    ):
        opts.recorded[name] = require_type(name, value, kind)
    for name in ("report_every_nth_execution", "max_report_size"):
        as_count(name, opts.recorded[name], least=0)
    profile = _execution_profile(profile_execution, profiling)
    opts.recorded["profile_execution"] = profile
    for name, given in opts.recorded.items():
        default = _DEFAULTS.get(name, False)
        warn_of_argument("create_ipu_config", name, given, default)
    config = opts.config
    config.ipu_model.version = "ipu1"
    if selection_order is not None:
        config.selection_order = selection_order
    config.scheduling.algorithm = _scheduler(scheduler_selection)
    config.scheduling.maximum_scheduler_lookahead_depth = max_scheduler_lookahead_depth
    config.scheduling.maximum_scheduler_search_space_size = (
        max_scheduler_search_space_size
    )
    config.experimental.always_rearrange_copies_on_the_host = (
        always_rearrange_copies_on_the_host
    )
    config.experimental.enable_remote_buffer_embedding = (
        enable_experimental_remote_buffer_embedding
    )
    optimizations = config.optimizations
    optimizations.prefetch_data_streams = prefetch_data_streams
    optimizations.merge_infeed_io_copies = merge_infeed_io_copies
    optimizations.enable_graph_outlining = not require_type(
        "disable_graph_outlining", disable_graph_outlining, bool
    )
    optimizations.enable_gather_simplifier = False
    optimizations.maximum_cross_replica_sum_buffer_size = (
        max_cross_replica_sum_buffer_size
    )
    optimizations.maximum_inter_ipu_copies_buffer_size = (
        max_inter_ipu_copies_buffer_size
    )
    optimizations.maximum_reduce_scatter_buffer_size = max_reduce_scatter_buffer_size
    return opts


def _execution_profile(
    profile_execution: bool | ExecutionProfileType | None, profiling: bool
) -> ExecutionProfileType:
    if profile_execution is None:
        return ExecutionProfileType.NO_PROFILE
    profile = profile_execution
    if is_flag(profile):
        on, off = ExecutionProfileType.DEVICE_PROFILE, ExecutionProfileType.NO_PROFILE
        profile = on if profile else off
    if not isinstance(profile, ExecutionProfileType):
        raise ConfigError(
            "`profile_execution` must be True, False, or an ExecutionProfileType "
            f"instance, got {profile!r}."
        )
    if profile is not ExecutionProfileType.NO_PROFILE and not profiling:
        raise ConfigError("`profiling` is required when `profile_execution` is set.")
    return profile


def _scheduler(selection: str) -> SchedulingAlgorithm:
    if not isinstance(selection, str) or selection not in _SCHEDULERS:
        raise ValueError(
            f"`scheduler_selection` must be one of {', '.join(map(repr, _SCHEDULERS))}, "
            f"got {selection!r}."
        )
    return _SCHEDULERS[selection]
