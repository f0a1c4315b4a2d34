"""What each public parameter, and each attribute of IPUConfig, does on a simulated IPU.

A name alone works. `:warns` is accepted, has no effect, and a warning says so once;
`:refused` raises for another value than the default; `:label` only names things.
tests/options/test_public_options.py compares the table with the signatures, and tries
each row.
"""

# Of the models of SDK 2.1, whose `save` refuses whatever it gets.
OLDER_FIT = (
    "x y batch_size epochs steps_per_epoch steps_per_run prefetch_depth **keywords"
)
OLDER_EVALUATE = "x y batch_size steps steps_per_run prefetch_depth **keywords"
OLDER_PREDICT = "x batch_size steps steps_per_run prefetch_depth **keywords"

# Of each layer of gated recurrent units.
GRU = {
    "": (
        "num_units dtype partials_dtype:warns seed weights_initializer bias_initializer "
        "activation recurrent_activation return_state name:label reset_after "
        "options:warns options_bwd:warns"
    ),
    ".build": "input_shape",
    ".state_shape": "batch_size",
}

# Of both estimators.
ESTIMATOR = {
    "": (
        "model_fn model_dir config params warm_start_from train_batch_size "
        "eval_batch_size predict_batch_size"
    ),
    ".get_variable_value": "name",
    ".train": "input_fn hooks steps max_steps saving_listeners",
    ".evaluate": "input_fn steps hooks checkpoint_path name",
    ".predict": (
        "input_fn predict_keys hooks checkpoint_path yield_single_examples "
        "num_predictions"
    ),
}

PARAMETERS = {
    "benchmark.Comparison": (
        "verdict ratio interval verdict_interval smallest_detectable "
        "seconds_needed runs_needed unit base new notes gate"
    ),
    "benchmark.Result": (
        "epochs dataset settings machine startup steady latency memcpy "
        "resources calibration queue links stages advice what_if series device "
        "cold service processes warnings error comparison"
    ),
    "benchmark.Result.write": "path",
    "benchmark.Settings": "epochs elements seconds passes memcpy items_per_element",
    "benchmark.compare": "base new allowed_loss base_names new_names",
    "benchmark.measure": "dataset settings name on_progress recording",
    "benchmark.with_stages": "result dataset verified what_if",
    "autoshard.automatic_sharding": (
        "num_shards input_ts loss_ts edge_filter:warns frozen_inference"
    ),
    "config.IPUConfig.configure_ipu_system": "device:warns",
    "config.IPUConfig.get_attribute_metadata": "attr",
    "config.IPUConfig.validate": "use_ipu_model",
    "config.configure_ipu_system": "config device:warns reset_configuration",
    "config.get_ipu_config": "session",
    "dataset_benchmark.dataset_benchmark": (
        "dataset number_of_epochs elements_per_epochs print_stats "
        "apply_debug_options do_memcpy"
    ),
    "dataset_benchmark.infeed_benchmark": (
        "infeed_queue number_of_epochs elements_per_epochs print_stats do_memcpy"
    ),
    "dataset_benchmark.partial_epochs": "error",
    "data.ops.dataset_ops.BufferDataset": "input_dataset buffer_size",
    "dataset_extractor.dataset_extractor": (
        "dataset num_elements filename feed_name print_stats"
    ),
    "dataset_extractor.export_variables": (
        "variables names filename metadata:warns print_stats"
    ),
    "dataset_extractor.get_variable_handles": "variables",
    "dataset_extractor.import_variables": (
        "variables filenames is_input:warns strict print_stats"
    ),
    "distributed.allgather": "value tensor_name:label",
    "distributed.allreduce": "value reduce_op tensor_name:label",
    "distributed.broadcast": "value root_rank tensor_name:label",
    "distributed.popdist_strategy.IPUSyncOnReadVariable.assign": (
        "value use_locking name read_value"
    ),
    "distributed.popdist_strategy.PopDistExtendedV1": (
        "container_strategy cluster_resolver:warns ipu_device "
        "add_ipu_cross_replica_reductions on_host"
    ),
    "distributed.popdist_strategy.PopDistStrategy": (
        "ipu_device add_ipu_cross_replica_reductions enable_dataset_iterators "
        "enable_keras_extensions"
    ),
    "distributed.popdist_strategy.PopDistStrategy.experimental_make_numpy_dataset": (
        "numpy_input session"
    ),
    "distributed.popdist_strategy.PopDistStrategy.experimental_run_v2": "fn args kwargs",
    "distributed.popdist_strategy.PopDistStrategy.reduce": "reduce_op value axis",
    "distributed.popdist_strategy.PopDistStrategy.run": "fn args kwargs options:warns",
    "distributed.popdist_strategy.PopDistStrategy.update_ipu_config": "config",
    "device.step": "seconds",
    "eager.backprop.GradientCaptureContext.add": "tag gradients",
    "eager.backprop.GradientCaptureTape": "persistent watch_accessed_variables",
    "eager.backprop.GradientCaptureTape.gradient": "*args **kwargs",
    "executable.ExecutableStats": (
        "compiles compile_seconds memory_hits disk_hits read_seconds saved "
        "refused loads switches load_seconds key_seconds"
    ),
    "executable.explain": "a b",
    "executable.trace": "path events",
    "horovod.allgather": "tensor name:label",
    "horovod.allreduce": "tensor op prescale_factor postscale_factor",
    "horovod.broadcast": "tensor root_rank name:label",
    "horovod.init": "comm:warns",
    "ipu_compiler.compile": "computation inputs",
    "ipu_session_run_hooks.IPULoggingTensorHook": (
        "every_n_iter every_n_secs at_end formatter logging_mode **kwargs:warns"
    ),
    "ipu_session_run_hooks.IPULoggingTensorHook.after_run": "run_context run_values",
    "ipu_session_run_hooks.IPULoggingTensorHook.end": "session",
    "ipu_session_run_hooks.IPULoggingTensorHook.log": "tensors",
    "ipu_infeed_queue.IPUInfeedQueue": (
        "dataset device_ordinal prefetch_depth optimise_latency:warns **kwargs:warns"
    ),
    "ipu_infeed_queue.IPUIterator": "dataset infeed_spec element_spec **kwargs",
    "ipu_infeed_queue.IPUIterator.get_next": "name:label",
    "ipu_infeed_queue.IPUOwnedIterator": "dataset infeed_spec element_spec **kwargs",
    "ipu_infeed_queue.IPUOwnedIterator.get_next": "name:label",
    "ipu_outfeed_queue.IPUOutfeedQueue": (
        "outfeed_mode device_ordinal buffer_depth optimise_latency:warns **kwargs:warns"
    ),
    "ipu_outfeed_queue.IPUOutfeedQueue.dequeue": "wait_for_completion",
    "ipu_outfeed_queue.IPUOutfeedQueue.enqueue": "tensors",
    "ipu_outfeed_queue.IPUOutfeedQueue.stream": "timeout_s",
    "ipu_outfeed_queue.IPUOutfeedQueueIterator": "queue",
    "ipu_outfeed_queue.ScopedIPUOutfeedQueue": "outfeed_mode device_ordinal",
    "ipu_outfeed_queue.ScopedIPUOutfeedQueue.dequeue": "wait_for_completion",
    "ipu_outfeed_queue.ScopedIPUOutfeedQueue.enqueue": "tensors",
    "ipu_outfeed_queue.ScopedIPUOutfeedQueue.stream": "timeout_s",
    "ipu_multi_worker_strategy.IPUMultiWorkerExtendedV1": (
        "container_strategy cluster_resolver ipu_device variables_on_host:warns"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy": (
        "cluster_resolver ipu_device variables_on_host:warns"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.experimental_make_numpy_dataset": (
        "numpy_input session"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.experimental_run_v2": (
        "fn args kwargs"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.reduce": "reduce_op value axis",
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.run": (
        "fn args kwargs options:warns"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.update_config_proto": (
        "config_proto"
    ),
    "ipu_multi_worker_strategy.IPUMultiWorkerStrategy.update_ipu_config": "config",
    **{f"ipu_estimator.IPUEstimator{name}": each for name, each in ESTIMATOR.items()},
    **{
        f"ipu_pipeline_estimator.IPUPipelineEstimator{name}": each
        for name, each in ESTIMATOR.items()
    },
    "ipu_run_config.RunConfig": "ipu_run_config master:warns **kwargs",
    "ipu_run_config.RunConfig.replace": "**kwargs",
    "ipu_strategy.IPUStrategy": (
        "ipu_device cpu_device:warns enable_dataset_iterators enable_keras_extensions"
    ),
    "ipu_strategy.IPUStrategy.experimental_make_numpy_dataset": "numpy_input session",
    "ipu_strategy.IPUStrategy.experimental_run_v2": "fn args kwargs",
    "ipu_strategy.IPUStrategy.reduce": "reduce_op value axis",
    "ipu_strategy.IPUStrategy.run": "fn args kwargs options:warns",
    "ipu_strategy.IPUExtendedV1": "strategy device on_host",
    "keras_extensions.KerasExtensions": (
        "enable_dataset_iterators enable_keras_extensions"
    ),
    "sharding.dependencies": "roots",
    "sharding.get_shard_from_colocation": "op",
    "sharding.has_attr": "op name",
    "loops.repeat": "n body inputs infeed_queue use_while_v1",
    "loops.while_loop": (
        "condition body inputs infeed_queue maximum_iterations use_while_v1"
    ),
    "keras.FunctionalLayerPipelineStageAssignment": "layer node_index pipeline_stage",
    "keras.FunctionalNestedModelPipelineStageAssignment": (
        "nested_model node_index pipeline_stage_assignments"
    ),
    "keras.InputBound.on_epoch_end": "epoch logs",
    "keras.InputBound.on_train_begin": "logs",
    "keras.Model": "inputs outputs *arguments **keywords",
    "keras.Model.compile": "*arguments **keywords",
    "keras.Model.evaluate": OLDER_EVALUATE,
    "keras.Model.fit": OLDER_FIT,
    "keras.Model.predict": OLDER_PREDICT,
    "keras.Model.save": "*_ **__",
    "keras.ModelLayerPipelineStageAssignment": "layer node_index pipeline_stage",
    "keras.NestedModelPipelineStageAssignment": (
        "nested_model node_index pipeline_stage_assignments"
    ),
    "keras.PipelineModel": "inputs outputs **keywords",
    "keras.PipelineModel.compile": "*arguments **keywords",
    "keras.PipelineModel.evaluate": OLDER_EVALUATE,
    "keras.PipelineModel.fit": OLDER_FIT,
    "keras.PipelineModel.predict": OLDER_PREDICT,
    "keras.PipelineModel.save": "*_ **__",
    "keras.PipelineSequential": "stages gradient_accumulation_count **keywords",
    "keras.PipelineSequential.compile": "*arguments **keywords",
    "keras.PipelineSequential.evaluate": OLDER_EVALUATE,
    "keras.PipelineSequential.fit": OLDER_FIT,
    "keras.PipelineSequential.predict": OLDER_PREDICT,
    "keras.PipelineSequential.save": "*_ **__",
    "keras.PipelineStage": "stage",
    "keras.Sequential": "layers *arguments **keywords",
    "keras.Sequential.compile": "*arguments **keywords",
    "keras.Sequential.evaluate": OLDER_EVALUATE,
    "keras.Sequential.fit": OLDER_FIT,
    "keras.Sequential.predict": OLDER_PREDICT,
    "keras.Sequential.save": "*_ **__",
    "keras.SequentialLayerPipelineStageAssignment": "layer pipeline_stage",
    "keras.SequentialNestedModelPipelineStageAssignment": (
        "nested_model pipeline_stage_assignments"
    ),
    "keras.SequentialPipelineModel": "stages gradient_accumulation_count **keywords",
    "keras.SequentialPipelineModel.compile": "*arguments **keywords",
    "keras.SequentialPipelineModel.evaluate": OLDER_EVALUATE,
    "keras.SequentialPipelineModel.fit": OLDER_FIT,
    "keras.SequentialPipelineModel.predict": OLDER_PREDICT,
    "keras.SequentialPipelineModel.save": "*_ **__",
    "keras.layers.AssumeEqualAcrossReplicas": "inplace:warns **kwargs",
    "keras.layers.AssumeEqualAcrossReplicas.call": "inputs",
    "keras.layers.Dropout": "rate noise_shape seed **kwargs",
    "keras.layers.Embedding": (
        "input_dim output_dim embeddings_initializer embeddings_regularizer:refused "
        "activity_regularizer:refused embeddings_constraint:refused mask_zero:refused "
        "input_length:refused serialization_factor:warns **kwargs"
    ),
    "keras.layers.Embedding.call": "inputs",
    "keras.layers.GRU": (
        "units activation recurrent_activation partials_dtype:warns time_major "
        "dropout_seed options:warns options_bwd:warns **kwargs"
    ),
    "keras.layers.GRU.call": "sequences initial_state mask training",
    "keras.layers.GroupNorm": (
        "groups channels_axis center scale epsilon beta_initializer gamma_initializer "
        "strided_channel_grouping **kwargs"
    ),
    "keras.layers.GroupNorm.build": "input_shape",
    "keras.layers.GroupNorm.call": "inputs",
    "keras.layers.InstanceNorm": "**kwargs",
    "keras.layers.InstanceNorm.build": "input_shape",
    "keras.layers.InstanceNorm.call": "inputs",
    "keras.layers.LSTM": (
        "units activation recurrent_activation partials_dtype:warns time_major "
        "dropout_seed options:warns options_bwd:warns **kwargs"
    ),
    "keras.layers.LSTM.call": "sequences initial_state mask training",
    "keras.layers.LayerNorm": "axis epsilon **kwargs",
    "keras.layers.RecomputationCheckpoint.call": "inputs",
    "keras.layers.SerialDense": (
        "units serialization_factor:warns serialization_dimension activation **kwargs"
    ),
    "keras.layers.SerialDense.call": "inputs",
    "ops.f8_ops.QuarterTensor": "data metadata",
    "ops.f8_ops.QuarterTensor.assign": "values",
    "ops.f8_ops.canonicalise_input": "inp expected_rank name:label",
    "ops.f8_ops.canonicalise_output": "output lhs",
    "ops.f8_ops.convert_from_f8": "packed_input dtype name:label",
    "ops.f8_ops.convert_to_f8": "values metadata name:label",
    "ops.f8_ops.create_metadata": "fmt scale",
    **dict.fromkeys(
        ("ops.f8_ops.f8_conv_1d", "ops.f8_ops.f8_conv_2d", "ops.f8_ops.f8_conv_3d"),
        "inputs filters strides padding data_format dilations name:label",
    ),
    "ops.f8_ops.f8_matmul": "lhs rhs name:label",
    "ops.all_to_all_op.all_gather": "x replication_factor name:label",
    "ops.all_to_all_op.all_to_all": (
        "x split_dimension concat_dimension number_of_replicas name:label"
    ),
    "ops.control_flow_ops.barrier": "tensors insert_barrier_for_gradients name:label",
    "ops.cross_replica_ops.assume_equal_across_replicas": "tensors inplace:warns",
    "ops.cross_replica_ops.cross_replica_mean": "x replica_group_size name:label",
    "ops.cross_replica_ops.cross_replica_sum": "x replica_group_size name:label",
    "ops.application_compile_op.experimental_application_compile_op": (
        "func inputs output_path freeze_variables name"
    ),
    "ops.custom_ops.codelet_expression_op": "vertex_expression *args",
    "ops.custom_ops.cpu_user_operation": (
        "inputs library_path outs name op_name separate_gradients "
        "inputs_with_gradients attributes gradient_attributes"
    ),
    "ops.custom_ops.precompiled_user_op": (
        "inputs library_path gp_path outs name op_name separate_gradients "
        "inputs_with_gradients attributes gradient_attributes"
    ),
    "ops.embedded_runtime.RuntimeContext": "_name _start_output _signature",
    "ops.embedded_runtime.embedded_runtime_call": "inputs context",
    "ops.embedded_runtime.embedded_runtime_start": "executable_file inputs name timeout",
    "ops.embedded_runtime.embedded_runtime_start_and_call": (
        "executable_file startup_inputs call_inputs name"
    ),
    "ops.embedded_runtime.embedded_runtime_stop": "context",
    "serving.export_keras": (
        "model export_dir batch_size output_names preprocessing_step "
        "preprocessing_step_signature postprocessing_step "
        "postprocessing_step_signature purge_export_dir"
    ),
    "serving.export_pipeline": (
        "computational_stages export_dir iterations inputs device_mapping "
        "pipeline_schedule poplar_options name predict_step_signature input_dataset "
        "output_names preprocessing_step preprocessing_step_signature "
        "postprocessing_step postprocessing_step_signature purge_export_dir"
    ),
    "serving.export_single_step": (
        "predict_step export_dir iterations predict_step_signature input_dataset "
        "output_names preprocessing_step preprocessing_step_signature "
        "postprocessing_step postprocessing_step_signature purge_export_dir"
    ),
    "ops.embedding_ops.HostEmbedding": (
        "name embedding_tensor partition_strategy optimizer_spec"
    ),
    "ops.embedding_ops.HostEmbedding.lookup": "indices clip_indices",
    "ops.embedding_ops.HostEmbedding.register": "session",
    "ops.embedding_ops.HostEmbeddingOptimizerSpec": "learning_rate optimizer_name:label",
    "ops.embedding_ops.HostEmbeddingOptimizerSpec.create_slot_variables": (
        "embedding_tensor name"
    ),
    "ops.embedding_ops.HostEmbeddingSGDGAOptimizerSpec": (
        "learning_rate accumulation_factor"
    ),
    "ops.embedding_ops.HostEmbeddingSGDGAOptimizerSpec.create_slot_variables": (
        "embedding_tensor name"
    ),
    "ops.embedding_ops.create_host_embedding": (
        "name shape dtype partition_strategy optimizer_spec initializer"
    ),
    "ops.embedding_ops.embedding_lookup": (
        "params ids serialization_factor indices_are_sorted:warns name:label "
        "**kwargs:warns"
    ),
    "ops.functional_ops.outlined_function": (
        "func unique_sharding:warns keep_input_layouts:warns name:label"
    ),
    "ops.grad_util_ops.capture_upstream_gradients": "args tag",
    "ops.image_ops.normalise_image": (
        "image channel_offsets channel_scales scale name:label"
    ),
    "ops.internal_ops.fifo": "x depth offload:warns name:label",
    "ops.internal_ops.get_current_iteration_counter": "name:label **kwargs",
    "ops.internal_ops.print_tensor": "input name",
    "ops.internal_ops.remap": "x name:label",
    "ops.internal_ops.remap_deduce": "x name:label",
    "ops.math_ops.segment_sum": "data segment_ids num_segments name:label",
    "ops.math_ops.serialized_matmul": (
        "a b serialization_factor serialization_dimension transpose_a transpose_b "
        "name:label"
    ),
    "ops.nn_ops.ctc_beam_search_decoder": (
        "logits logits_lengths beam_width top_paths blank_index name:label"
    ),
    "ops.nn_ops.ctc_beam_search_decoder_with_log_probs": (
        "log_probs input_lengths beam_width top_paths blank_index name:label"
    ),
    "ops.nn_ops.ctc_loss_v2": (
        "labels logits label_length logit_length blank_index out_dtype name:label"
    ),
    "ops.nn_ops.ctc_loss_with_log_probs": (
        "labels data label_length data_length blank_index out_dtype name:label"
    ),
    "ops.nn_ops.gelu": "x approximate name:label",
    "ops.nn_ops.hard_sigmoid": "x name:label",
    "ops.nn_ops.multi_conv": "func options:warns",
    "ops.nn_ops.nce_loss": (
        "weights biases labels inputs num_sampled num_classes num_true "
        "sampled_values name:label"
    ),
    "ops.nn_ops.sampled_softmax_loss": (
        "weights biases labels inputs num_sampled num_classes num_true "
        "sampled_values name:label seed"
    ),
    "ops.nn_ops.softmax": "x stable name:label",
    "ops.nn_ops.swish": "x name:label",
    "ops.normalization_ops.group_norm": (
        "inputs groups channels_axis center scale epsilon param_initializers reuse "
        "variables_collections training trainable scope strided_channel_grouping"
    ),
    "ops.normalization_ops.instance_norm": (
        "inputs channels_axis center scale epsilon param_initializers reuse "
        "variables_collections training trainable scope"
    ),
    "ops.normalization_ops.layer_norm": (
        "inputs channels_axis center scale epsilon param_initializers reuse "
        "variables_collections training trainable scope"
    ),
    "ops.op_util.HandleMatMulGrads": "grads",
    "ops.op_util.SetMlType": "op ml_type",
    "ops.op_util.SetOpAsBwd": "op",
    "ops.op_util.SetOpAsFwd": "op",
    "ops.op_util.SetOpAsWU": "op",
    "ops.op_util.bool_to_three_state": "value default",
    "ops.op_util.accumulate_gradients": "grads_and_vars gradient_accumulation_dtype "
    "accum_scale grad_scale create_accumulator_from_shape",
    "ops.op_util.get_accumulator_dtype": "variable dtype_override",
    "ops.op_util.get_activation_name": "identifier",
    "ops.op_util.gradient_override_scope": "training",
    "ops.pipelining_ops.OptimizerFunctionOutput": (
        "opt loss compute_gradients_args compute_gradients_kwargs "
        "apply_gradients_args apply_gradients_kwargs variables tape "
        "gradient_capture_context captured_gradient_outfeed"
    ),
    "ops.pipelining_ops.PipelineStageOptions": (
        "convolution_options:warns matmul_options:warns slice_options:warns"
    ),
    "ops.pipelining_ops.pipeline": (
        "computational_stages gradient_accumulation_count "
        "gradient_accumulation_dtype gradient_accumulation_for_captured_grads "
        "repeat_count batch_serialization_iterations inputs infeed_queue "
        "outfeed_queue optimizer_function device_mapping pipeline_schedule "
        "recomputation_mode:warns "
        "forward_propagation_stages_poplar_options:warns "
        "backward_propagation_stages_poplar_options:warns "
        "weight_update_poplar_options:warns offload_weight_update_variables "
        "replicated_optimizer_state_sharding:warns offload_activations:warns "
        "offload_gradient_accumulation_buffers:warns "
        "replicated_weight_sharding:warns offload_weights:warns "
        "continuous_weight_updates:refused outfeed_loss accumulate_outfeed "
        "accumulate_outfeed_dtype outfeed_mask reduction_method name:label"
    ),
    "ops.pipelining_ops.recomputation_checkpoint": "tensors name:label",
    "ops.rand_ops.dropout": "x rate noise_shape seed name:label **kwargs",
    "ops.reduce_scatter_op.reduce_scatter": "x replication_factor op name:label",
    "ops.replication_ops.replication_index": "name:label",
    **{
        f"ops.rnn_ops.{kind}{name}": each
        for kind in ("PopnnGRU", "PopnnDynamicGRU", "PopnnAUGRU")
        for name, each in GRU.items()
    },
    "ops.rnn_ops.PopnnAUGRU.call": (
        "inputs seq_len attention_score initial_state training time_major"
    ),
    "ops.rnn_ops.PopnnDynamicGRU.call": (
        "inputs seq_len initial_state training time_major"
    ),
    "ops.rnn_ops.PopnnDynamicLSTM": "*args preserve_final_state **kwargs",
    "ops.rnn_ops.PopnnDynamicLSTM.build": "input_shape",
    "ops.rnn_ops.PopnnDynamicLSTM.call": "inputs seq_len initial_state training",
    "ops.rnn_ops.PopnnDynamicLSTM.state_shape": "batch_size",
    "ops.rnn_ops.PopnnGRU.call": "inputs initial_state training",
    "ops.rnn_ops.PopnnLSTM": (
        "num_units dtype partials_dtype:warns seed weights_initializer bias_initializer "
        "activation recurrent_activation return_state name:label options:warns "
        "options_bwd:warns"
    ),
    "ops.rnn_ops.PopnnLSTM.build": "input_shape",
    "ops.rnn_ops.PopnnLSTM.call": "inputs initial_state training",
    "ops.rnn_ops.PopnnLSTM.state_shape": "batch_size",
    "ops.slicing_ops.sequence_slice": (
        "dst src num_elems src_offsets dst_offsets zero_unused"
    ),
    "ops.slicing_ops.sequence_slice_pack": "dst src num_elems dst_offsets zero_unused",
    "ops.slicing_ops.sequence_slice_unpack": (
        "src num_elems src_offsets total_elements"
    ),
    "ops.statistics_ops.fixed_width_bins": "inputs n_bins",
    "ops.statistics_ops.histogram": "inputs levels absolute_of_input",
    "ops.statistics_ops.histogram_normalize": "hist",
    "ops.statistics_ops.histogram_update": "hist inputs levels absolute_of_input",
    "ops.summary_ops.ipu_compile_summary": "name:label op_list collections",
    "ops.within_replica_ops.all_gather": "input_shards axis",
    "ops.within_replica_ops.all_reduce": "input_shards op",
    "ops.within_replica_ops.reduce_scatter": "input_shards op",
    "optimizers.CrossReplicaGradientAccumulationOptimizer": (
        "opt num_mini_batches verify_usage name:label"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizer.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizer.compute_gradients": (
        "*args **kwargs"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizer.get_slot": "var name",
    "optimizers.CrossReplicaGradientAccumulationOptimizer.get_slot_names": (
        "*args **kwargs"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizerV2": (
        "opt num_mini_batches offload_weight_update_variables:warns "
        "replicated_optimizer_state_sharding:warns dtype reduction_method "
        "name:label"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizerV2.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizerV2.compute_gradients": (
        "*args **kwargs"
    ),
    "optimizers.CrossReplicaGradientAccumulationOptimizerV2.get_slot": "var name",
    "optimizers.CrossReplicaGradientAccumulationOptimizerV2.get_slot_names": (
        "*args **kwargs"
    ),
    "optimizers.cross_replica_optimizer.apply_cross_replica_op": "grads_and_vars",
    "optimizers.cross_replica_optimizer.apply_cross_replica_op_single": "grad var",
    "optimizers.CrossReplicaOptimizer": "opt name:label",
    "optimizers.CrossReplicaOptimizer.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.CrossReplicaOptimizer.compute_gradients": "*args **kwargs",
    "optimizers.CrossReplicaOptimizer.get_slot": "var name",
    "optimizers.CrossReplicaOptimizer.get_slot_names": "*args **kwargs",
    "optimizers.GradientAccumulationOptimizer": (
        "opt num_mini_batches verify_usage name:label"
    ),
    "optimizers.GradientAccumulationOptimizer.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.GradientAccumulationOptimizer.compute_gradients": "*args **kwargs",
    "optimizers.GradientAccumulationOptimizer.get_slot": "var name",
    "optimizers.GradientAccumulationOptimizer.get_slot_names": "*args **kwargs",
    "optimizers.GradientAccumulationOptimizerV2": (
        "opt num_mini_batches offload_weight_update_variables:warns "
        "replicated_optimizer_state_sharding:warns dtype reduction_method "
        "name:label"
    ),
    "optimizers.GradientAccumulationOptimizerV2.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.GradientAccumulationOptimizerV2.compute_gradients": "*args **kwargs",
    "optimizers.GradientAccumulationOptimizerV2.get_slot": "var name",
    "optimizers.GradientAccumulationOptimizerV2.get_slot_names": "*args **kwargs",
    "optimizers.IpuOptimizer": "opt name:label",
    "optimizers.IpuOptimizer.apply_gradients": "grads_and_vars global_step name:label",
    "optimizers.IpuOptimizer.compute_gradients": "*args **kwargs",
    "optimizers.IpuOptimizer.get_slot": "var name",
    "optimizers.IpuOptimizer.get_slot_names": "*args **kwargs",
    "optimizers.MapGradientOptimizer": (
        "wrapped_optimizer gradient_mapping_function name:label"
    ),
    "optimizers.MapGradientOptimizer.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.MapGradientOptimizer.compute_gradients": "*args **kwargs",
    "optimizers.MapGradientOptimizer.get_slot": "var name",
    "optimizers.MapGradientOptimizer.get_slot_names": "*args **kwargs",
    "optimizers.MapGradientOptimizerInvertedChaining": (
        "wrapped_optimizer gradient_mapping_function name:label"
    ),
    "optimizers.MapGradientOptimizerInvertedChaining.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.MapGradientOptimizerInvertedChaining.compute_gradients": (
        "*args **kwargs"
    ),
    "optimizers.MapGradientOptimizerInvertedChaining.get_slot": "var name",
    "optimizers.MapGradientOptimizerInvertedChaining.get_slot_names": "*args **kwargs",
    "optimizers.ShardedOptimizer": "optimizer",
    "optimizers.ShardedOptimizer.apply_gradients": (
        "grads_and_vars global_step name:label"
    ),
    "optimizers.ShardedOptimizer.compute_gradients": "*args **kwargs",
    "optimizers.ShardedOptimizer.get_slot": "var name",
    "optimizers.ShardedOptimizer.get_slot_names": "*args **kwargs",
    "queues.QueueStats": (
        "name elements capacity filled stored_bytes device_waits device_parks "
        "device_waited_s host_waits host_parks host_waited_s"
    ),
    "queues.set_outfeed_limit": "limit",
    "queues.set_stall_report": "seconds",
    "scopes.frontend_attribute": (
        "attribute_name:warns attribute_value restore_to:label"
    ),
    "scopes.ipu_jit_scope": "ipu_scope",
    "scopes.ipu_scope": "device",
    "scopes.ipu_shard": "index",
    "scopes.outside_compilation_scope": "name:label",
    "scopes.partials_type": "override_type:warns",
    "scopes.stochastic_rounding": "override:warns",
    "sharding.get_sharding": "operation",
    "sharding.propagate_sharding": "graph",
    "sources.RecordFault": "kind offset record message",
    "sources.RecordReport": (
        "path compression file_bytes stream_bytes records data_bytes shortest "
        "longest data_checked seconds fault"
    ),
    "sources.arrow_ipc": (
        "files columns batch_size drop_remainder nulls shard parallel"
    ),
    "sources.check_tfrecord": "path compression data stop",
    "sources.from_loader": "loader",
    "sources.images": "folder resize channels shard parallel",
    "sources.parquet": "files columns batch_size drop_remainder nulls shard parallel",
    "sources.synthetic": "spec dtype elements seconds seed",
    "sources.tfrecord": "files shard parallel check compression",
    "utils.KeyId": "key start_id",
    "utils.auto_select_ipus": "opts num_ipus",
    "utils.create_ipu_config": (
        "profiling:warns enable_ipu_events:warns use_poplar_text_report:warns "
        "use_poplar_cbor_report:warns profile_execution:warns "
        "enable_poplar_serialized_graph:warns report_every_nth_execution:warns "
        "max_report_size:warns report_directory:warns scheduler_selection:warns "
        "always_rearrange_copies_on_the_host:warns merge_infeed_io_copies:warns "
        "disable_graph_convolution_caching:warns disable_graph_outlining:warns "
        "retain_control_dependencies:warns "
        "max_cross_replica_sum_buffer_size:warns "
        "max_inter_ipu_copies_buffer_size:warns "
        "max_reduce_scatter_buffer_size:warns "
        "max_scheduler_lookahead_depth:warns "
        "max_scheduler_search_space_size:warns prefetch_data_streams:warns "
        "selection_order enable_experimental_remote_buffer_embedding:warns"
    ),
    "utils.export_dataset_to_file": (
        "dataset_or_infeed output_filename num_elements feed_name apply_debug_options"
    ),
    "utils.export_inputs_to_file": "inputs output_filename feed_dict",
    "utils.extract_all_events": "events",
    "utils.extract_all_io_events": "events",
    "utils.extract_all_strings_from_event_trace": "events",
    "utils.extract_all_types_from_event_trace": "events",
    "utils.extract_compile_reports": "events",
    "utils.extract_execute_reports": "events",
    "utils.extract_graph_reports": "events",
    "utils.extract_poplar_serialized_graphs": "events",
    "utils.get_num_of_ipus_in_device": "ipu_device device:warns",
    "utils.move_variable_initialization_to_cpu": "graph",
    "utils.reset_ipu_seed": (
        "seed device cpu_device:warns experimental_identical_replicas"
    ),
    "utils.select_ipus": "opts indices",
    "utils.set_compilation_options": "opts compilation_options",
    "utils.set_convolution_options": "opts convolution_options:warns",
    "utils.set_experimental_multi_replica_distribution_options": (
        "opts process_count process_index"
    ),
    "utils.set_floating_point_behaviour_options": (
        "opts inv:warns div0:warns oflo:warns esr:warns nanoo:warns"
    ),
    "utils.set_gcl_options": "opts num_io_tiles gcl_options:warns",
    "utils.set_io_tile_options": (
        "opts num_io_tiles place_ops_on_io_tiles:warns "
        "io_tile_available_memory_proportion:warns"
    ),
    "utils.set_ipu_connection_type": (
        "opts connection_type ipu_version enable_remote_buffers"
    ),
    "utils.set_ipu_model_options": (
        "opts compile_ipu_code tiles_per_ipu ipu_model_version"
    ),
    "utils.set_matmul_options": "opts matmul_options:warns clear_pass_type:warns",
    "utils.set_norm_options": "opts use_stable_statistics:warns",
    "utils.set_optimization_options": (
        "opts combine_embedding_lookups:warns combine_matmuls:warns "
        "max_cross_replica_sum_buffer_size:warns "
        "max_reduce_scatter_buffer_size:warns "
        "max_inter_ipu_copies_buffer_size:warns "
        "max_send_recv_cluster_size:warns minimum_remote_tensor_size:warns "
        "merge_remote_buffers:warns gather_simplifier:warns "
        "triangular_solve_expander_block_size:warns cholesky_block_size:warns "
        "enable_fast_math:warns"
    ),
    "utils.set_pooling_options": "opts pooling_options:warns",
    "utils.set_recomputation_options": (
        "opts allow_recompute allow_stateful_recompute:warns"
    ),
    "utils.set_report_options": (
        "opts report_options:warns graph_options:warns execution_options:warns"
    ),
    "utils.set_serialization_options": "opts output_folder",
    "utils.set_transfer_options": "opts use_verified_transfers:warns",
    "utils.set_verification_options": "opts verification_options:warns",
    "utils.use_synthetic_data_for": "synthetic_data_category",
    "vertex_edsl.BinaryExpr": "op lhs rhs",
    "vertex_edsl.BinaryExpr.lower": "source",
    "vertex_edsl.BinaryFunctionExpr": "op lhs rhs",
    "vertex_edsl.BinaryFunctionExpr.lower": "source",
    "vertex_edsl.Conditional": "pred a b",
    "vertex_edsl.Conditional.lower": "source",
    "vertex_edsl.ConstantVertexExpr": "val",
    "vertex_edsl.ConstantVertexExpr.lower": "source",
    "vertex_edsl.LetVertexExpr": "expr f",
    "vertex_edsl.LetVertexExpr.lower": "source",
    "vertex_edsl.PlaceholderVertexExpr": "name type",
    "vertex_edsl.PlaceholderVertexExpr.lower": "source",
    "vertex_edsl.Sequence": "element_type",
    "vertex_edsl.Type": "type",
    "vertex_edsl.UnaryFunctionExpr": "op lhs",
    "vertex_edsl.UnaryFunctionExpr.lower": "source",
    "vertex_edsl.VertexExpression": "type",
    "vertex_edsl.VertexExpression.lower": "source",
    "vertex_edsl.condition": "pred a b",
    "vertex_edsl.constant": "val",
    "vertex_edsl.let": "expr f",
}

ATTRIBUTES = {
    "IPUConfig.auto_select_ipus": "works",
    "IPUConfig.select_ipus": "works",
    "IPUConfig.selection_order": "works",
    "IPUConfig.allow_recompute": "works",
    "IPUConfig.compilation_poplar_options": "works",
    "IPUConfig.gcl_poplar_options": "warns",
    "IPUConfig.serialization_output_folder": "works",
    "IPUConfig.convolutions.poplar_options": "warns",
    "IPUConfig.device_connection.version": "works",
    "IPUConfig.device_connection.type": "works",
    "IPUConfig.device_connection.enable_remote_buffers": "works",
    "IPUConfig.experimental.always_rearrange_copies_on_the_host": "warns",
    "IPUConfig.experimental.enable_remote_buffer_embedding": "warns",
    "IPUConfig.experimental.enable_prng_stability": "warns",
    "IPUConfig.experimental.multi_replica_distribution.process_count": "works",
    "IPUConfig.experimental.multi_replica_distribution.process_index": "works",
    "IPUConfig.floating_point_behaviour.inv": "warns",
    "IPUConfig.floating_point_behaviour.div0": "warns",
    "IPUConfig.floating_point_behaviour.oflo": "warns",
    "IPUConfig.floating_point_behaviour.esr": "warns",
    "IPUConfig.floating_point_behaviour.nanoo": "warns",
    "IPUConfig.floating_point_behaviour.set_all": "warns",
    "IPUConfig.io_tiles.num_io_tiles": "works",
    "IPUConfig.io_tiles.place_ops_on_io_tiles": "warns",
    "IPUConfig.io_tiles.available_memory_proportion": "warns",
    "IPUConfig.ipu_model.compile_ipu_code": "works",
    "IPUConfig.ipu_model.tiles_per_ipu": "works",
    "IPUConfig.ipu_model.version": "works",
    "IPUConfig.matmuls.clear_pass_type": "warns",
    "IPUConfig.matmuls.poplar_options": "warns",
    "IPUConfig.norms.use_stable_statistics": "warns",
    "IPUConfig.norms.experimental.distributed_batch_norm_replica_group_size": "warns",
    "IPUConfig.optimizations.prefetch_data_streams": "warns",
    "IPUConfig.optimizations.combine_embedding_lookups": "warns",
    "IPUConfig.optimizations.combine_matmuls": "warns",
    "IPUConfig.optimizations.enable_graph_outlining": "warns",
    "IPUConfig.optimizations.merge_infeed_io_copies": "warns",
    "IPUConfig.optimizations.maximum_cross_replica_sum_buffer_size": "warns",
    "IPUConfig.optimizations.maximum_reduce_scatter_buffer_size": "warns",
    "IPUConfig.optimizations.maximum_inter_ipu_copies_buffer_size": "warns",
    "IPUConfig.optimizations.maximum_send_recv_cluster_size": "warns",
    "IPUConfig.optimizations.maximum_reduce_many_buffer_size": "warns",
    "IPUConfig.optimizations.maximum_all_gather_buffer_size": "warns",
    "IPUConfig.optimizations.minimum_remote_tensor_size": "warns",
    "IPUConfig.optimizations.merge_remote_buffers": "warns",
    "IPUConfig.optimizations.enable_gather_simplifier": "warns",
    "IPUConfig.optimizations.triangular_solve_expander_block_size": "warns",
    "IPUConfig.optimizations.cholesky_block_size": "warns",
    "IPUConfig.optimizations.enable_fast_math": "warns",
    "IPUConfig.optimizations.enable_dynamic_slice_replacement": "warns",
    "IPUConfig.optimizations.math.fast": "warns",
    "IPUConfig.optimizations.math.dot_strength": "warns",
    "IPUConfig.pooling.poplar_options": "warns",
    "IPUConfig.scheduling.algorithm": "warns",
    "IPUConfig.scheduling.maximum_scheduler_lookahead_depth": "warns",
    "IPUConfig.scheduling.maximum_scheduler_search_space_size": "warns",
    "IPUConfig.slices.poplar_options": "warns",
}
