"""Graphcore's names for what ipufeed has, and where each stands: one table, as text."""

from __future__ import annotations

_CONFIG = dict.fromkeys(
    (
        "DeviceConnectionType",
        "ExecutionProfileType",
        "MergeRemoteBuffersBehaviour",
        "SchedulingAlgorithm",
        "SelectionOrder",
        "StochasticRoundingBehaviour",
    ),
    "ipufeed.device.config.enums",
) | dict.fromkeys(
    ("configure_ipu_system", "get_ipu_config", "reset_ipu_configuration"),
    "ipufeed.device.system.system",
)
_CONFIG["IPUConfig"] = "ipufeed.device.config.config"

_UTILS = (
    _CONFIG
    | dict.fromkeys(
        (
            "auto_select_ipus",
            "select_ipus",
            "set_compilation_options",
            "set_convolution_options",
            "set_experimental_multi_replica_distribution_options",
            "set_floating_point_behaviour_options",
            "set_gcl_options",
            "set_io_tile_options",
            "set_ipu_connection_type",
            "set_ipu_model_options",
            "set_matmul_options",
            "set_norm_options",
            "set_optimization_options",
            "set_pooling_options",
            "set_recomputation_options",
            "set_report_options",
            "set_serialization_options",
            "set_transfer_options",
        ),
        "ipufeed.device.config.options",
    )
    | {
        "create_ipu_config": "ipufeed.device.config.options_create",
        "get_num_of_ipus_in_device": "ipufeed.device.system.system",
        "reset_ipu_seed": "ipufeed.device.system.seeds",
        "running_on_ipu_model": "ipufeed.device.flags.flags",
        "use_synthetic_data_for": "ipufeed.device.flags.flags",
        "SyntheticDataCategory": "ipufeed.device.flags.synthetic",
        "move_variable_initialization_to_cpu": "ipufeed.device.program.variables",
        "export_dataset_to_file": "ipufeed.programs.exporting",
        "export_inputs_to_file": "ipufeed.programs.exporting",
    }
)


_REDUCTION = "ipufeed.parallel.optimizers.reduction_method"


_PIPELINING = dict.fromkeys(
    ("OptimizerFunctionOutput", "PipelineStageOptions", "RecomputationMode"),
    "ipufeed.parallel.pipeline.options",
) | {
    "GradientAccumulationReductionMethod": _REDUCTION,
    "PipelineSchedule": "ipufeed.parallel.pipeline.schedules",
    "pipeline": "ipufeed.parallel.pipeline.pipeline",
    "recomputation_checkpoint": "ipufeed.parallel.pipeline.recomputation",
}


_OPTIMIZERS = (
    dict.fromkeys(
        (
            *("CrossReplicaOptimizer", "MapGradientOptimizer"),
            *("MapGradientOptimizerInvertedChaining", "ShardedOptimizer"),
        ),
        "ipufeed.parallel.optimizers.optimizers",
    )
    | dict.fromkeys(
        (
            "CrossReplicaGradientAccumulationOptimizer",
            "CrossReplicaGradientAccumulationOptimizerV2",
            "GradientAccumulationOptimizer",
            "GradientAccumulationOptimizerV2",
        ),
        "ipufeed.parallel.optimizers.accumulation",
    )
    | {"IpuOptimizer": "ipufeed.parallel.optimizers.wrapper"}
)


_COLLECTIVES = "ipufeed.parallel.collectives.ops"


def _refused(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "ipufeed.ops.refused")


def _optimizers(*names: str) -> dict[str, str]:
    return {name: _OPTIMIZERS[name] for name in names}


_HOST_COLLECTIVES = "ipufeed.programs.host_collectives"
_STRATEGIES = "ipufeed.programs.popdist_strategy"
_DISTRIBUTED = dict.fromkeys(
    (
        *("IPUDistributedVariable", "IPUMirroredVariable", "IPUOnReadPolicy"),
        *("IPUOnWritePolicy", "IPUSyncOnReadVariable"),
    ),
    _STRATEGIES,
)


# Graphcore's module below tensorflow.python.ipu -> its names -> where they are.
MODULES: dict[str, dict[str, str]] = {
    "config": _CONFIG
    | {"running_on_ipu_model": "ipufeed.device.flags.flags"}
    | _refused(
        "AttributeMetadata", "deprecate_config_attribute", "deprecate_config_attributes"
    ),
    "dataset_benchmark": dict.fromkeys(
        ("dataset_benchmark", "infeed_benchmark", "partial_epochs"),
        "ipufeed.benchmark.dataset_benchmark",
    ),
    "data": {},
    "data.ops": {},
    "data.ops.dataset_ops": {"BufferDataset": "ipufeed.programs.buffer_dataset"},
    "dataset_extractor": dict.fromkeys(
        (
            *("dataset_extractor", "export_variables"),
            *("get_variable_handles", "import_variables"),
        ),
        "ipufeed.programs.exporting",
    ),
    "distributed": dict.fromkeys(
        ("allgather", "allreduce", "broadcast"), _HOST_COLLECTIVES
    ),
    "distributed.host_collective_ops": dict.fromkeys(
        ("allgather", "allreduce", "broadcast"), _HOST_COLLECTIVES
    ),
    "distributed.popdist_strategy": _DISTRIBUTED
    | dict.fromkeys(("PopDistExtendedV1", "PopDistStrategy"), _STRATEGIES),
    "eager": {},
    "eager.backprop": dict.fromkeys(
        (
            *("GradientCaptureContext", "GradientCaptureTape"),
            "num_gradient_collection_tapes",
        ),
        "ipufeed.parallel.optimizers.captured",
    ),
    "gradient_accumulation": {"GradientAccumulationReductionMethod": _REDUCTION},
    "horovod": dict.fromkeys(
        (
            *("allgather", "allreduce", "broadcast", "init"),
            *("local_rank", "local_size", "rank", "size"),
        ),
        _HOST_COLLECTIVES,
    ),
    "horovod.ipu_multi_replica_strategy": {"IPUMultiReplicaStrategy": _STRATEGIES},
    "horovod.popdist_strategy": {"PopDistStrategy": _STRATEGIES},
    "ipu_estimator": _refused("IPUEstimator", "IPUEstimatorSpec"),
    "ipu_multi_worker_strategy": _DISTRIBUTED
    | dict.fromkeys(
        (
            *("IPUMultiWorkerExtendedV1", "IPUMultiWorkerStrategy"),
            "IPUMultiWorkerStrategyV1",
        ),
        _STRATEGIES,
    ),
    "ipu_pipeline_estimator": _refused(
        "IPUPipelineEstimator", "IPUPipelineEstimatorSpec"
    ),
    "ipu_run_config": _refused("IPURunConfig", "RunConfig"),
    "ipu_session_run_hooks": dict.fromkeys(
        ("IPULoggingTensorHook", "LoggingMode"), "ipufeed.programs.session_run_hooks"
    ),
    "ipu_compiler": {"compile": "ipufeed.device.program.compiler"},
    "ipu_infeed_queue": {
        "IPUInfeedQueue": "ipufeed.queues.infeed",
        "IPUIterator": "ipufeed.queues.iterators",
        "IPUOwnedIterator": "ipufeed.queues.iterators",
    },
    "ipu_outfeed_queue": {
        "IPUOutfeedMode": "ipufeed.queues.outfeed",
        "IPUOutfeedQueue": "ipufeed.queues.outfeed",
        "IPUOutfeedQueueIterator": "ipufeed.queues.outfeed",
        "ScopedIPUOutfeedQueue": "ipufeed.queues.scoped_outfeed",
    },
    "ipu_strategy": dict.fromkeys(
        ("IPUExtendedV1", "IPUStrategy", "IPUStrategyV1"),
        "ipufeed.device.program.strategy",
    ),
    "ops": {},
    "ops.all_to_all_op": dict.fromkeys(("all_gather", "all_to_all"), _COLLECTIVES),
    "ops.control_flow_ops": dict.fromkeys(("barrier",), "ipufeed.ops.control_flow_ops"),
    "ops.cross_replica_ops": dict.fromkeys(
        ("assume_equal_across_replicas", "cross_replica_mean", "cross_replica_sum"),
        _COLLECTIVES,
    ),
    "ops.custom_ops": dict.fromkeys(
        ("codelet_expression_op", "cpu_user_operation", "precompiled_user_op"),
        "ipufeed.ops.custom_ops",
    ),
    "ops.embedding_ops": dict.fromkeys(
        (
            *("HostEmbedding", "HostEmbeddingOptimizerSpec", "embedding_lookup"),
            *("HostEmbeddingSGDGAOptimizerSpec", "create_host_embedding"),
        ),
        "ipufeed.ops.embedding_ops",
    ),
    "ops.application_compile_op": {
        "experimental_application_compile_op": "ipufeed.applications.compiling"
    },
    "ops.embedded_runtime": dict.fromkeys(
        (
            *("RuntimeContext", "embedded_runtime_call", "embedded_runtime_start"),
            *("embedded_runtime_start_and_call", "embedded_runtime_stop"),
        ),
        "ipufeed.applications.runtime",
    ),
    "ops.experimental": {},
    "ops.experimental.popfloat_cast_to_gfloat": _refused(
        "GenericFloat",
        "calc_gfloat_params",
        "cast_gfloat_to_native",
        "cast_native_to_gfloat",
    ),
    "ops.f8_ops": dict.fromkeys(
        (
            *("Format", "QuarterTensor", "canonicalise_input", "canonicalise_output"),
            *("convert_from_f8", "convert_to_f8", "create_metadata"),
            *("f8_conv_1d", "f8_conv_2d", "f8_conv_3d", "f8_matmul"),
        ),
        "ipufeed.ops.quarter.f8_ops",
    ),
    "ops.functional_ops": {"outlined_function": "ipufeed.ops.functional_ops"},
    "ops.grad_util_ops": {
        "capture_upstream_gradients": "ipufeed.parallel.optimizers.captured"
    },
    "ops.image_ops": {"normalise_image": "ipufeed.ops.image_ops"},
    "ops.internal_ops": dict.fromkeys(
        (
            *("fifo", "get_current_iteration_counter", "print_tensor"),
            *("remap", "remap_deduce"),
        ),
        "ipufeed.ops.internal_ops",
    ),
    "ops.math_ops": dict.fromkeys(
        ("segment_sum", "serialized_matmul"), "ipufeed.ops.math_ops"
    ),
    "ops.nn_ops": dict.fromkeys(
        (
            *("ctc_beam_search_decoder", "ctc_beam_search_decoder_with_log_probs"),
            *("ctc_loss_v2", "ctc_loss_with_log_probs", "gelu", "hard_sigmoid"),
            *("multi_conv", "nce_loss", "sampled_softmax_loss", "softmax", "swish"),
        ),
        "ipufeed.ops.nn_ops",
    ),
    "ops.normalization_ops": dict.fromkeys(
        ("group_norm", "instance_norm", "layer_norm"), "ipufeed.ops.normalization_ops"
    ),
    "ops.pipelining_ops": _PIPELINING,
    "ops.op_util": dict.fromkeys(
        (
            *(
                "HandleMatMulGrads",
                "SetMlType",
                "SetOpAsBwd",
                "SetOpAsFwd",
                "SetOpAsWU",
            ),
            *("accumulate_gradients", "bool_to_three_state"),
            *(
                "conv_gradients_override_map",
                "get_accumulator_dtype",
                "get_activation_name",
            ),
            *("gradient_override_scope", "gradients_override_map"),
            "matmul_gradients_override_map",
        ),
        "ipufeed.ops.op_util",
    )
    | _refused("accumulate_tagged_gradients", "create_resource_update"),
    "ops.rand_ops": {"dropout": "ipufeed.ops.rand_ops"},
    "ops.reduce_scatter_op": {"reduce_scatter": _COLLECTIVES},
    "ops.replication_ops": {"replication_index": _COLLECTIVES},
    "ops.slicing_ops": dict.fromkeys(
        ("sequence_slice", "sequence_slice_pack", "sequence_slice_unpack"),
        "ipufeed.ops.slicing_ops",
    ),
    "ops.statistics_ops": dict.fromkeys(
        ("fixed_width_bins", "histogram", "histogram_normalize", "histogram_update"),
        "ipufeed.ops.statistics_ops",
    ),
    "ops.within_replica_ops": dict.fromkeys(
        ("all_gather", "all_reduce", "reduce_scatter"), "ipufeed.ops.within_replica_ops"
    ),
    "optimizers": _OPTIMIZERS,
    "optimizers.cross_replica_optimizer": _optimizers("CrossReplicaOptimizer")
    | dict.fromkeys(
        ("apply_cross_replica_op", "apply_cross_replica_op_single"),
        "ipufeed.parallel.optimizers.optimizers",
    ),
    "optimizers.gradient_accumulation_optimizer": _optimizers(
        "CrossReplicaGradientAccumulationOptimizer",
        "CrossReplicaGradientAccumulationOptimizerV2",
        "GradientAccumulationOptimizer",
        "GradientAccumulationOptimizerV2",
    ),
    "optimizers.ipu_optimizer": _optimizers("IpuOptimizer"),
    "optimizers.map_gradient_optimizer": _optimizers(
        "MapGradientOptimizer", "MapGradientOptimizerInvertedChaining"
    ),
    "optimizers.sharded_optimizer": _optimizers("ShardedOptimizer"),
    "keras_extensions": {"KerasExtensions": "ipufeed.device.program.strategy"},
    "loops": dict.fromkeys(("repeat", "while_loop"), "ipufeed.device.program.loops"),
    "pipelining_ops": _PIPELINING,
    "scopes": dict.fromkeys(
        (
            *("frontend_attribute", "ipu_jit_scope", "ipu_scope", "ipu_shard"),
            *("outside_compilation_scope", "partials_type", "stochastic_rounding"),
        ),
        "ipufeed.device.program.scopes",
    ),
    "serving": _refused("export_keras")
    | dict.fromkeys(
        ("export_pipeline", "export_single_step"), "ipufeed.applications.exporting"
    ),
    "sharding": dict.fromkeys(
        (
            *("dependencies", "enable_sharded_gradient_tape", "get_sharding"),
            *("get_shard_from_colocation", "has_attr", "propagate_sharding"),
        ),
        "ipufeed.device.program.shard_queries",
    ),
    "utils": _UTILS,
    "vertex_edsl": dict.fromkeys(
        (
            *("BaseType", "BinaryExpr", "BinaryFunctionExpr", "Conditional"),
            *("ConstantVertexExpr", "DefaultNameSource", "Float16", "Float32", "Int16"),
            *("Int32", "LetVertexExpr", "PlaceholderVertexExpr", "Sequence", "Type"),
            *("UnaryFunctionExpr", "Unknown", "VertexExpression", "condition"),
            *("constant", "let"),
        ),
        "ipufeed.ops.codelets.vertex_edsl",
    ),
}


# Graphcore's package has these modules of its packages itself, too.
MODULES |= {
    module.rpartition(".")[2]: MODULES[module]
    for module in (
        *("ops.all_to_all_op", "ops.application_compile_op", "ops.control_flow_ops"),
        *("ops.custom_ops", "ops.cross_replica_ops", "ops.embedded_runtime"),
        *("ops.embedding_ops", "ops.functional_ops", "ops.grad_util_ops"),
        *("ops.image_ops", "ops.internal_ops", "ops.math_ops", "ops.nn_ops"),
        *("ops.normalization_ops", "ops.rand_ops", "ops.reduce_scatter_op"),
        *("ops.replication_ops", "ops.slicing_ops", "ops.statistics_ops"),
        *("ops.within_replica_ops", "optimizers.cross_replica_optimizer"),
        *(
            "optimizers.gradient_accumulation_optimizer",
            "optimizers.map_gradient_optimizer",
        ),
        *("optimizers.sharded_optimizer",),
    )
}


# ... and these names.
TOP: dict[str, str] = {
    "IPUConfig": "ipufeed.device.config.config",
    "IPUInfeedQueue": "ipufeed.queues.infeed",
    "IPUOutfeedMode": "ipufeed.queues.outfeed",
    "IPUOutfeedQueue": "ipufeed.queues.outfeed",
    "IPUStrategy": "ipufeed.device.program.strategy",
    "configure_ipu_system": "ipufeed.device.system.system",
    "outlined_function": "ipufeed.ops.functional_ops",
    "reset_ipu_configuration": "ipufeed.device.system.system",
}

# Other modules that programs import, by their whole names -> where they are.
ELSEWHERE: dict[str, str] = {
    "popdist": "ipufeed.programs.popdist",
    **{
        f"tensorflow.compiler.plugin.poplar.ops.{name}": f"ipufeed.programs.{name}"
        for name in ("gen_ipu_ops", "gen_pop_datastream_ops", "gen_poputil_ops")
    },
}
