"""Calls with each public option that warns: see test_public_options.py."""

import functools
import tempfile

import numpy as np
import option_table
import strategy_options
import tensorflow as tf

from ipufeed.device.config import options, options_create
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.verification import VerificationOptions
from ipufeed.device.program import scopes
from ipufeed.device.program.shard_queries import automatic_sharding
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import seeds, system
from ipufeed.estimators.ipu_run_config import RunConfig
from ipufeed.keras import layers as keras_layers
from ipufeed.ops.embedding_ops import embedding_lookup
from ipufeed.ops.functional_ops import outlined_function
from ipufeed.ops.internal_ops import fifo
from ipufeed.ops.nn_ops import multi_conv
from ipufeed.ops.recurrent.dynamic_rnn_ops import PopnnAUGRU, PopnnDynamicGRU
from ipufeed.ops.recurrent.rnn_ops import PopnnGRU, PopnnLSTM
from ipufeed.parallel.collectives.ops import assume_equal_across_replicas
from ipufeed.parallel.optimizers.accumulation import (
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizerV2,
)
from ipufeed.parallel.pipeline.options import (
    OptimizerFunctionOutput,
    PipelineStageOptions,
    RecomputationMode,
)
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.programs import dataset_extractor
from ipufeed.programs.session_run_hooks import IPULoggingTensorHook
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


# ---- What warns


def changed(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2
    if isinstance(value, str):
        return "elsewhere"
    if isinstance(value, dict):
        return {"option": "value"}
    return next(each for each in type(value) if each is not value)


def on_config(name):
    """Configures with an attribute that has another value than its default."""
    config = IPUConfig()
    if name.startswith("io_tiles"):
        config.io_tiles.num_io_tiles = 2
    value = {meta.name: value for meta, value in config.attributes()}[name]
    config.from_dict({name: changed(value)})
    config.configure_ipu_system()


def older(function, parameter, value, **others):
    """Configures with options of the older style."""
    opts = options_create.create_ipu_config()
    if function == "create_ipu_config":
        opts = options_create.create_ipu_config(**{parameter: value}, **others)
    else:
        getattr(options, function)(opts, **{parameter: value}, **others)
    system.configure_ipu_system(opts)


OLDER = {
    "create_ipu_config": {
        "profiling": True,
        "enable_ipu_events": True,
        "use_poplar_text_report": True,
        "use_poplar_cbor_report": True,
        "profile_execution": True,
        "enable_poplar_serialized_graph": True,
        "report_every_nth_execution": 1,
        "max_report_size": 1,
        "report_directory": "here",
        "scheduler_selection": "Clustering",
        "always_rearrange_copies_on_the_host": True,
        "merge_infeed_io_copies": True,
        "disable_graph_convolution_caching": True,
        "disable_graph_outlining": True,
        "retain_control_dependencies": True,
        "max_cross_replica_sum_buffer_size": 1,
        "max_inter_ipu_copies_buffer_size": 1,
        "max_reduce_scatter_buffer_size": 1,
        "max_scheduler_lookahead_depth": 1,
        "max_scheduler_search_space_size": 1,
        "prefetch_data_streams": False,
        "enable_experimental_remote_buffer_embedding": True,
    },
    "set_convolution_options": {"convolution_options": {"a": "b"}},
    "set_floating_point_behaviour_options": dict.fromkeys(
        ("inv", "div0", "oflo", "esr", "nanoo"), True
    ),
    "set_gcl_options": {"gcl_options": {"a": "b"}},
    "set_io_tile_options": {
        "place_ops_on_io_tiles": True,
        "io_tile_available_memory_proportion": 0.5,
    },
    "set_matmul_options": {"matmul_options": {"a": "b"}, "clear_pass_type": True},
    "set_norm_options": {"use_stable_statistics": True},
    "set_optimization_options": {
        "combine_embedding_lookups": True,
        "combine_matmuls": True,
        "max_cross_replica_sum_buffer_size": 1,
        "max_reduce_scatter_buffer_size": 1,
        "max_inter_ipu_copies_buffer_size": 1,
        "max_send_recv_cluster_size": 1,
        "minimum_remote_tensor_size": 1,
        "merge_remote_buffers": options.MergeRemoteBuffersBehaviour.MERGE,
        "gather_simplifier": True,
        "triangular_solve_expander_block_size": 1,
        "cholesky_block_size": 1,
        "enable_fast_math": True,
    },
    "set_pooling_options": {"pooling_options": {"a": "b"}},
    "set_recomputation_options": {"allow_stateful_recompute": True},
    "set_report_options": {
        name: {"a": "b"}
        for name in ("report_options", "graph_options", "execution_options")
    },
    "set_transfer_options": {"use_verified_transfers": True},
    "set_verification_options": {"verification_options": VerificationOptions()},
}
# What an option needs in addition.
WITH = {
    "profile_execution": {"profiling": True},
    "place_ops_on_io_tiles": {"num_io_tiles": 2},
    "io_tile_available_memory_proportion": {"num_io_tiles": 2},
} | {
    name: {
        other: False
        for other in ("inv", "div0", "oflo", "esr", "nanoo")
        if other != name
    }
    for name in ("inv", "div0", "oflo", "esr", "nanoo")
}


def sgd():
    return v1.train.GradientDescentOptimizer(0.1)


def build_pipeline(**arguments):
    """Builds a pipeline that trains, in a program that does not run."""
    variable = tf.Variable(1.0)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
    _ = infeed.initializer
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [lambda x: x * variable, lambda x: x + 1.0],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            **{
                "optimizer_function": lambda loss: OptimizerFunctionOutput(sgd(), loss),
                **arguments,
            },
        )

    with scopes.ipu_scope("/device:IPU:0"):
        program.get_concrete_function()


STAGE = PipelineStageOptions(matmul_options={"a": "b"})
PIPELINE = {
    "recomputation_mode": RecomputationMode.RecomputeAndBackpropagateInterleaved,
    "forward_propagation_stages_poplar_options": [STAGE, STAGE],
    "backward_propagation_stages_poplar_options": [STAGE, STAGE],
    "weight_update_poplar_options": STAGE,
    "replicated_optimizer_state_sharding": True,
    "offload_activations": True,
    "offload_gradient_accumulation_buffers": False,
    "replicated_weight_sharding": True,
    "offload_weights": True,
}


def entered(scope):
    """Enters a scope, and leaves it."""
    with tf.Graph().as_default(), scope:
        pass


OPTIMIZERS = {
    f"optimizers.{kind.__name__}": kind
    for kind in (
        GradientAccumulationOptimizerV2,
        CrossReplicaGradientAccumulationOptimizerV2,
    )
}
ONE = np.ones([1, 1], np.float32)


def shard_with_a_filter():
    """Distributes one op."""
    with tf.Graph().as_default():
        start = tf.constant(1.0)
        automatic_sharding(1, start, start + 1, edge_filter=lambda edge: True)


def export_nothing():
    """Writes a file of no variables."""
    with tempfile.TemporaryDirectory() as folder:
        dataset_extractor.export_variables([], [], f"{folder}/file", metadata=True)


OPS = {
    (f"ops.{module}.{name}", parameter): call
    for (module, name, parameter), call in {
        ("cross_replica_ops", "assume_equal_across_replicas", "inplace"): (
            lambda: assume_equal_across_replicas(ONE, inplace=True)
        ),
        ("embedding_ops", "embedding_lookup", "indices_are_sorted"): (
            lambda: embedding_lookup(ONE, [0], indices_are_sorted=True)
        ),
        ("embedding_ops", "embedding_lookup", "**kwargs"): (
            lambda: embedding_lookup(ONE, [0], one_hot_threshold=0)
        ),
        ("functional_ops", "outlined_function", "unique_sharding"): (
            lambda: outlined_function(tf.identity, unique_sharding=True)
        ),
        ("functional_ops", "outlined_function", "keep_input_layouts"): (
            lambda: outlined_function(tf.identity, keep_input_layouts=True)
        ),
        ("internal_ops", "fifo", "offload"): (lambda: fifo(ONE, 0, offload=True)),
        ("nn_ops", "multi_conv", "options"): (
            lambda: multi_conv(tf.identity, options={"a": "b"})(ONE)
        ),
    }.items()
}
CALLS = {
    ("config.IPUConfig.configure_ipu_system", "device"): lambda: (
        IPUConfig().configure_ipu_system("/device:CPU:1")
    ),
    ("config.configure_ipu_system", "device"): lambda: system.configure_ipu_system(
        IPUConfig(), "/device:CPU:1"
    ),
    ("utils.get_num_of_ipus_in_device", "device"): lambda: (
        system.configure_ipu_system(IPUConfig()),
        system.get_num_of_ipus_in_device("/device:IPU:0", "/device:CPU:1"),
    ),
    ("dataset_extractor.export_variables", "metadata"): export_nothing,
    ("dataset_extractor.import_variables", "is_input"): lambda: (
        dataset_extractor.import_variables([], [], is_input=False)
    ),
    ("utils.reset_ipu_seed", "cpu_device"): lambda: seeds.reset_ipu_seed(
        1, cpu_device="/device:CPU:1"
    ),
    ("ipu_infeed_queue.IPUInfeedQueue", "optimise_latency"): lambda: IPUInfeedQueue(
        tf.data.Dataset.range(2).map(lambda n: tf.cast(n, tf.int32)),
        optimise_latency=True,
    ),
    ("ipu_infeed_queue.IPUInfeedQueue", "**kwargs"): lambda: IPUInfeedQueue(
        tf.data.Dataset.range(2).map(lambda n: tf.cast(n, tf.int32)),
        data_to_prefetch=2,
    ),
    ("ipu_session_run_hooks.IPULoggingTensorHook", "**kwargs"): lambda: (
        IPULoggingTensorHook(at_end=True, replication_factor=2)
    ),
    ("ipu_outfeed_queue.IPUOutfeedQueue", "optimise_latency"): lambda: IPUOutfeedQueue(
        optimise_latency=True
    ),
    ("ipu_outfeed_queue.IPUOutfeedQueue", "**kwargs"): lambda: IPUOutfeedQueue(
        io_batch_size=2
    ),
    ("ipu_run_config.RunConfig", "master"): lambda: RunConfig(master="local"),
    ("ipu_strategy.IPUStrategy", "cpu_device"): lambda: IPUStrategy(cpu_device="host"),
    ("autoshard.automatic_sharding", "edge_filter"): shard_with_a_filter,
    **strategy_options.CALLS,
    **OPS,
    **{
        (f"ops.rnn_ops.{layer.__name__}", option): functools.partial(
            layer, 1, **{option: value}
        )
        for layer in (PopnnAUGRU, PopnnDynamicGRU, PopnnGRU, PopnnLSTM)
        for option, value in {
            "options": {"a": "b"},
            "options_bwd": {"a": "b"},
            "partials_dtype": tf.float16,
        }.items()
    },
    ("scopes.frontend_attribute", "attribute_name"): lambda: entered(
        scopes.frontend_attribute("colour", "red")
    ),
    ("scopes.partials_type", "override_type"): lambda: entered(
        scopes.partials_type(tf.float16)
    ),
    ("scopes.stochastic_rounding", "override"): lambda: entered(
        scopes.stochastic_rounding(True)
    ),
    ("keras.layers.AssumeEqualAcrossReplicas", "inplace"): lambda: (
        keras_layers.AssumeEqualAcrossReplicas(inplace=True)
    ),
    ("keras.layers.Embedding", "serialization_factor"): lambda: keras_layers.Embedding(
        4, 2, serialization_factor=2
    ),
    **{
        (f"keras.layers.{kind}", parameter): (
            lambda k=kind, p=parameter, v=value: getattr(keras_layers, k)(2, **{p: v})
        )
        for kind in ("GRU", "LSTM")
        for parameter, value in {
            "partials_dtype": "float16",
            "options": {"a": "b"},
            "options_bwd": {"a": "b"},
        }.items()
    },
    ("keras.layers.SerialDense", "serialization_factor"): lambda: (
        keras_layers.SerialDense(2, 2, "kernel_rows")
    ),
    **{
        (f"utils.{function}", parameter): (
            lambda f=function, p=parameter, v=value: older(f, p, v, **WITH.get(p, {}))
        )
        for function, values in OLDER.items()
        for parameter, value in values.items()
    },
    **{
        ("ops.pipelining_ops.pipeline", parameter): (
            lambda p=parameter, v=value: build_pipeline(**{p: v})
        )
        for parameter, value in PIPELINE.items()
    },
    **{
        ("ops.pipelining_ops.PipelineStageOptions", parameter): (
            lambda p=parameter: build_pipeline(
                weight_update_poplar_options=PipelineStageOptions(**{p: {"a": "b"}})
            )
        )
        for parameter in ("convolution_options", "matmul_options", "slice_options")
    },
    **{
        (name, parameter): (lambda k=kind, p=parameter: k(sgd(), 2, **{p: True}))
        for name, kind in OPTIMIZERS.items()
        for parameter in (
            "offload_weight_update_variables",
            "replicated_optimizer_state_sharding",
        )
    },
    **{
        (name, ""): (lambda n=name: on_config(n.removeprefix("IPUConfig.")))
        for name, kind in option_table.ATTRIBUTES.items()
        if kind == "warns"
    },
}
