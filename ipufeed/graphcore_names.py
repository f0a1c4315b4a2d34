"""Table of Graphcore's names and the ipufeed modules that define them, as text."""

from __future__ import annotations


def _at(place: str, names: str) -> dict[str, str]:
    """Returns the names, each with the module that defines it, below ipufeed."""
    return dict.fromkeys(names.split(), f"ipufeed.{place}")


def _refused(names: str) -> dict[str, str]:
    return _at("ops.refused", names)


_CONFIG = (
    _at(
        "device.config.enums",
        "DeviceConnectionType ExecutionProfileType MergeRemoteBuffersBehaviour "
        "SchedulingAlgorithm SelectionOrder StochasticRoundingBehaviour",
    )
    | _at(
        "device.system.system",
        "configure_ipu_system get_ipu_config reset_ipu_configuration",
    )
    | _at("device.config.config", "IPUConfig")
)

_UTILS = (
    _CONFIG
    | _at(
        "device.config.options",
        "auto_select_ipus select_ipus set_compilation_options set_convolution_options "
        "set_experimental_multi_replica_distribution_options "
        "set_floating_point_behaviour_options set_gcl_options set_io_tile_options "
        "set_ipu_connection_type set_ipu_model_options set_matmul_options "
        "set_norm_options set_optimization_options set_pooling_options "
        "set_recomputation_options set_report_options set_serialization_options "
        "set_transfer_options set_verification_options",
    )
    | _at("device.config.verification", "KeyId VerificationOptions")
    | _at("device.config.options_create", "create_ipu_config")
    | _at("device.system.system", "get_num_of_ipus_in_device")
    | _at("device.system.seeds", "reset_ipu_seed")
    | _at("device.flags.flags", "running_on_ipu_model use_synthetic_data_for")
    | _at("device.flags.synthetic", "SyntheticDataCategory")
    | _at("device.program.variables", "move_variable_initialization_to_cpu")
    | _at("programs.dataset_extractor", "export_dataset_to_file export_inputs_to_file")
    | _refused("export_variables_from_live_model export_variables_from_live_session")
    | _at(
        "programs.event_traces",
        "extract_all_events extract_all_io_events extract_all_strings_from_event_trace "
        "extract_all_types_from_event_trace extract_compile_reports "
        "extract_execute_reports extract_graph_reports extract_poplar_serialized_graphs",
    )
)

_REDUCTION_METHOD = _at(
    "parallel.optimizers.arguments", "GradientAccumulationReductionMethod"
)

_PIPELINING = (
    _at(
        "parallel.pipeline.options",
        "OptimizerFunctionOutput PipelineStageOptions RecomputationMode",
    )
    | _REDUCTION_METHOD
    | _at("parallel.pipeline.schedules", "PipelineSchedule")
    | _at("parallel.pipeline.checks", "_ALL_DEVICES")
    | _at("parallel.pipeline.pipeline", "pipeline")
    | _at("parallel.pipeline.recomputation", "recomputation_checkpoint")
)

_ACCUMULATION = _at(
    "parallel.optimizers.accumulation",
    "CrossReplicaGradientAccumulationOptimizer "
    "CrossReplicaGradientAccumulationOptimizerV2 GradientAccumulationOptimizer "
    "GradientAccumulationOptimizerV2",
)
_WRAPPERS = "parallel.optimizers.optimizers"
_IPU_OPTIMIZER = _at("parallel.optimizers.wrapper", "IpuOptimizer")

_COLLECTIVES = "parallel.collectives.ops"
_HOST_COLLECTIVES = "programs.host_collectives"
_STRATEGIES = "programs.popdist_strategy"
_DISTRIBUTED = _at(
    _STRATEGIES,
    "IPUDistributedVariable IPUMirroredVariable IPUOnReadPolicy IPUOnWritePolicy "
    "IPUSyncOnReadVariable",
)


# Graphcore's module below tensorflow.python.ipu -> its names -> the modules of ipufeed
# that define them.
MODULES: dict[str, dict[str, str]] = {
    "autoshard": _at(
        "device.program.shard_queries", "automatic_sharding ipu_autoshard"
    ),
    "config": _CONFIG
    | _at("device.flags.flags", "running_on_ipu_model")
    | _refused(
        "AttributeMetadata deprecate_config_attribute deprecate_config_attributes"
    ),
    "dataset_benchmark": _at(
        "benchmark.dataset_benchmark",
        "dataset_benchmark infeed_benchmark partial_epochs",
    ),
    "data": {},
    "data.ops": {},
    "data.ops.dataset_ops": _at("programs.buffer_dataset", "BufferDataset"),
    "dataset_extractor": _at(
        "programs.dataset_extractor",
        "dataset_extractor export_variables get_variable_handles import_variables",
    ),
    "distributed": _at(_HOST_COLLECTIVES, "allgather allreduce broadcast"),
    "distributed.host_collective_ops": _at(
        _HOST_COLLECTIVES, "allgather allreduce broadcast"
    ),
    "distributed.popdist_strategy": _DISTRIBUTED
    | _at(_STRATEGIES, "PopDistExtendedV1 PopDistStrategy"),
    "eager": {},
    "eager.backprop": _at(
        "parallel.optimizers.gradient_capture",
        "GradientCaptureContext GradientCaptureTape num_gradient_collection_tapes",
    ),
    "gradient_accumulation": _REDUCTION_METHOD,
    "horovod": _at(
        "programs.horovod",
        "Average Sum allgather allreduce broadcast init is_initialized local_rank "
        "local_size rank shutdown size",
    ),
    "horovod.ipu_horovod_strategy": _at(_STRATEGIES, "IPUHorovodStrategy"),
    "horovod.ipu_multi_replica_strategy": _at(_STRATEGIES, "IPUMultiReplicaStrategy"),
    "horovod.popdist_strategy": _at(_STRATEGIES, "PopDistStrategy"),
    "ipu_estimator": _at("estimators.ipu_estimator", "IPUEstimator IPUEstimatorSpec"),
    "ipu_multi_worker_strategy": _DISTRIBUTED
    | _at(
        _STRATEGIES,
        "IPUMultiWorkerExtendedV1 IPUMultiWorkerStrategy IPUMultiWorkerStrategyV1",
    ),
    "ipu_pipeline_estimator": _at(
        "estimators.ipu_pipeline_estimator",
        "IPUPipelineEstimator IPUPipelineEstimatorSpec",
    ),
    "ipu_run_config": _at("estimators.ipu_run_config", "IPURunConfig RunConfig"),
    "ipu_session_run_hooks": _at(
        "programs.session_run_hooks", "IPULoggingTensorHook LoggingMode"
    ),
    "ipu_compiler": _at("device.program.compiler", "compile"),
    "ipu_infeed_queue": _at("queues.infeed", "IPUInfeedQueue")
    | _at("queues.iterators", "IPUIterator IPUOwnedIterator"),
    "ipu_outfeed_queue": _at(
        "queues.outfeed", "IPUOutfeedMode IPUOutfeedQueue IPUOutfeedQueueIterator"
    )
    | _at("queues.scoped_outfeed", "ScopedIPUOutfeedQueue"),
    "ipu_strategy": _at(
        "device.program.strategy", "IPUExtendedV1 IPUStrategy IPUStrategyV1"
    ),
    "ops": {},
    "ops.all_to_all_op": _at(_COLLECTIVES, "all_gather all_to_all"),
    "ops.control_flow_ops": _at("ops.control_flow_ops", "barrier"),
    "ops.cross_replica_ops": _at(
        _COLLECTIVES,
        "assume_equal_across_replicas cross_replica_mean cross_replica_sum",
    ),
    "ops.custom_ops": _at(
        "ops.custom_ops", "codelet_expression_op cpu_user_operation precompiled_user_op"
    ),
    "ops.embedding_ops": _at(
        "ops.embedding_ops",
        "HostEmbedding HostEmbeddingOptimizerSpec embedding_lookup "
        "HostEmbeddingSGDGAOptimizerSpec create_host_embedding",
    ),
    "ops.application_compile_op": _at(
        "applications.compiling", "experimental_application_compile_op"
    ),
    "ops.embedded_runtime": _at(
        "applications.runtime",
        "RuntimeContext embedded_runtime_call embedded_runtime_start "
        "embedded_runtime_start_and_call embedded_runtime_stop",
    ),
    "ops.experimental": {},
    "ops.experimental.popfloat_cast_to_gfloat": _refused(
        "GenericFloat calc_gfloat_params cast_gfloat_to_native cast_native_to_gfloat"
    ),
    "ops.f8_ops": _at(
        "ops.quarter.f8_ops",
        "Format QuarterTensor canonicalise_input canonicalise_output convert_from_f8 "
        "convert_to_f8 create_metadata f8_conv_1d f8_conv_2d f8_conv_3d f8_matmul",
    ),
    "ops.functional_ops": _at("ops.functional_ops", "outlined_function"),
    "ops.grad_util_ops": _at(
        "parallel.optimizers.gradient_capture", "capture_upstream_gradients"
    ),
    "ops.image_ops": _at("ops.image_ops", "normalise_image"),
    "ops.internal_ops": _at(
        "ops.internal_ops",
        "fifo get_current_iteration_counter print_tensor remap remap_deduce",
    ),
    "ops.math_ops": _at("ops.math_ops", "segment_sum serialized_matmul"),
    "ops.nn_ops": _at(
        "ops.nn_ops",
        "ctc_beam_search_decoder ctc_beam_search_decoder_with_log_probs ctc_loss_v2 "
        "ctc_loss_with_log_probs gelu hard_sigmoid multi_conv nce_loss "
        "sampled_softmax_loss softmax swish",
    ),
    "ops.normalization_ops": _at(
        "ops.normalization_ops", "group_norm instance_norm layer_norm"
    ),
    "ops.pipelining_ops": _PIPELINING,
    "ops.op_util": _at(
        "ops.op_util",
        "HandleMatMulGrads SetMlType SetOpAsBwd SetOpAsFwd SetOpAsWU "
        "accumulate_gradients bool_to_three_state conv_gradients_override_map "
        "get_accumulator_dtype get_activation_name gradient_override_scope "
        "gradients_override_map matmul_gradients_override_map",
    )
    | _refused("accumulate_tagged_gradients create_resource_update"),
    "ops.rand_ops": _at("ops.rand_ops", "dropout"),
    "ops.reduce_scatter_op": _at(_COLLECTIVES, "reduce_scatter"),
    "ops.replication_ops": _at(_COLLECTIVES, "replication_index"),
    "ops.rnn_ops": _at("ops.recurrent.rnn_ops", "PopnnGRU PopnnLSTM")
    | _at(
        "ops.recurrent.dynamic_rnn_ops", "PopnnAUGRU PopnnDynamicGRU PopnnDynamicLSTM"
    ),
    "ops.slicing_ops": _at(
        "ops.slicing_ops", "sequence_slice sequence_slice_pack sequence_slice_unpack"
    ),
    "ops.statistics_ops": _at(
        "ops.statistics_ops",
        "fixed_width_bins histogram histogram_normalize histogram_update",
    ),
    "ops.summary_ops": _at(
        "programs.event_traces", "get_ipu_reports ipu_compile_summary"
    ),
    "ops.within_replica_ops": _at(
        "ops.within_replica_ops", "all_gather all_reduce reduce_scatter"
    ),
    "optimizers": _at(
        _WRAPPERS,
        "CrossReplicaOptimizer MapGradientOptimizer "
        "MapGradientOptimizerInvertedChaining ShardedOptimizer",
    )
    | _ACCUMULATION
    | _IPU_OPTIMIZER,
    "optimizers.cross_replica_optimizer": _at(
        _WRAPPERS,
        "CrossReplicaOptimizer apply_cross_replica_op apply_cross_replica_op_single",
    ),
    "optimizers.gradient_accumulation_optimizer": _ACCUMULATION,
    "optimizers.ipu_optimizer": _IPU_OPTIMIZER,
    "optimizers.map_gradient_optimizer": _at(
        _WRAPPERS, "MapGradientOptimizer MapGradientOptimizerInvertedChaining"
    ),
    "optimizers.sharded_optimizer": _at(_WRAPPERS, "ShardedOptimizer"),
    "keras_extensions": _at("device.program.strategy", "KerasExtensions"),
    "loops": _at("device.program.loops", "repeat while_loop"),
    "pipelining_ops": _PIPELINING,
    "scopes": _at(
        "device.program.scopes",
        "FRONTEND_ATTRIBUTES_NAME frontend_attribute ipu_jit_scope ipu_scope ipu_shard "
        "outside_compilation_scope partials_type stochastic_rounding",
    ),
    "serving": _at("keras.exporting", "export_keras")
    | _at("applications.exporting", "export_pipeline export_single_step"),
    "sharding": _at(
        "device.program.shard_queries",
        "dependencies enable_sharded_gradient_tape get_sharding "
        "get_shard_from_colocation has_attr propagate_sharding",
    ),
    "utils": _UTILS,
    "vertex_edsl": _at(
        "ops.codelets.vertex_edsl",
        "BaseType BinaryExpr BinaryFunctionExpr Conditional ConstantVertexExpr "
        "DefaultNameSource Float16 Float32 Int16 Int32 LetVertexExpr "
        "PlaceholderVertexExpr Sequence Type UnaryFunctionExpr Unknown "
        "VertexExpression condition constant let",
    ),
}


# Modules that Graphcore's package exports at its top level, too.
_ALSO_AT_TOP = (
    "ops.all_to_all_op ops.application_compile_op ops.control_flow_ops "
    "ops.custom_ops ops.cross_replica_ops ops.embedded_runtime ops.embedding_ops "
    "ops.experimental.popfloat_cast_to_gfloat ops.f8_ops ops.functional_ops "
    "ops.grad_util_ops ops.image_ops ops.internal_ops "
    "ops.math_ops ops.nn_ops ops.normalization_ops ops.rand_ops "
    "ops.reduce_scatter_op ops.replication_ops ops.rnn_ops ops.slicing_ops "
    "ops.statistics_ops ops.summary_ops "
    "ops.within_replica_ops optimizers.cross_replica_optimizer "
    "optimizers.gradient_accumulation_optimizer "
    "optimizers.map_gradient_optimizer optimizers.sharded_optimizer"
)
MODULES |= {
    module.rpartition(".")[2]: MODULES[module] for module in _ALSO_AT_TOP.split()
}

# Names that it exports there.
TOP: dict[str, str] = (
    _at("device.config.config", "IPUConfig")
    | _at("queues.infeed", "IPUInfeedQueue")
    | _at("queues.outfeed", "IPUOutfeedMode IPUOutfeedQueue")
    | _at("device.program.strategy", "IPUStrategy")
    | _at("device.system.system", "configure_ipu_system reset_ipu_configuration")
    | _at("ops.functional_ops", "outlined_function")
)

# Full names of other modules that programs import -> the modules of ipufeed.
ELSEWHERE: dict[str, str] = {
    "popdist": "ipufeed.programs.popdist",
    "tensorflow.compiler.plugin.poplar.driver.config_pb2": "ipufeed.programs.config_pb2",
    **{
        f"tensorflow.compiler.plugin.poplar.ops.{name}": f"ipufeed.programs.{name}"
        for name in ("gen_ipu_ops", "gen_pop_datastream_ops", "gen_poputil_ops")
    },
    "tensorflow.estimator": "ipufeed.estimators.tf_estimator",
}
