"""Table of the attributes of TensorFlow and Keras that ipufeed replaces, with reasons.

`replace` and `add_entry` accept only the changes of this table, which is the checklist for
an upgrade of TensorFlow. All are of TensorFlow 2.21, tf_keras 2.21 and Keras 3.12 or later.
The replacements themselves are in the modules of their layers.
"""

from __future__ import annotations

import types
from collections.abc import MutableMapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """A replaced attribute.

    Attributes:
        why: What the replacement does that the original does not.
        where: The module of ipufeed that makes the replacement.
        test: The test file that fails without it.
    """

    why: str
    where: str
    test: str


_SEEDS = "device.random.patches"
_ENDS = Change(
    "raises SystemExit in a daemon thread, at the end of the process",
    *("ending", "tests/faults/test_readers_at_exit.py"),
)
_HOST_DATASETS = Change(
    "builds datasets for the host, in an IPU's scope too",
    *("tf_patches.host_datasets", "tests/device/test_datasets_in_scope.py"),
)
_ADAPTS = Change(
    "reads its data on the host, in an IPU's scope too",
    *("keras.changes.adapting", "tests/keras/test_adapting.py"),
)
_CALLS = Change(
    "runs models of an IPUStrategy as compiled programs",
    *("keras.install", "tests/keras/test_fit.py"),
)
_COMPILE = Change(
    "checks and keeps what a model's programs need, for models of an IPUStrategy",
    *("keras.install", "tests/keras/test_keras_steps.py"),
)
_SAVES = Change(
    "writes the IPU options of a model to its file",
    *("keras.install", "tests/keras/test_keras_saving.py"),
)
_KEEPS = Change(
    "keeps the IPU options of a model in an HDF5 file or a SavedModel",
    *("keras.changes.files", "tests/keras/programs/test_other_formats.py"),
)
_METHODS = Change(
    "Graphcore's set_... methods, and those of stages: names that Keras does not have",
    *("keras.install", "tests/keras/test_keras_options.py"),
)
_LAYERS = Change(
    "forgets the stages of a Sequential whose layers change",
    *("keras.install", "tests/keras/test_keras_pipeline.py"),
)
_STAGES = Change(
    "records the PipelineStage that a layer or its call is made in",
    *("keras.pipeline.scope", "tests/keras/test_keras_pipeline.py"),
)
_MOVES = Change(
    "in an IPU's scope, moves an unbuilt optimizer's variables to the IPU",
    *("keras.changes.moving", "tests/keras/test_moved_optimizers.py"),
)
_LEGACY = "keras.changes.legacy"
_STRATEGIES = "tests/keras/test_legacy_strategies.py"
_KERAS_3 = "keras.src.models.model.Model"
_TRAINER_3 = "keras.src.backend.tensorflow.trainer.TensorFlowTrainer"
_KERAS_2 = "tf_keras.src.engine.training.Model"
_CALLED = (
    *("fit", "evaluate", "predict"),
    *("train_on_batch", "test_on_batch", "predict_on_batch"),
)
CHANGES = {
    "tensorflow.python.client.session.BaseSession.run": Change(
        "raises what a signal's handler raises, such as KeyboardInterrupt",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.context.Context.call_function": Change(
        "raises what a signal's handler raises, such as KeyboardInterrupt; an error in a "
        "call also ends the programs that it started",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function."
    "Function.__call__": _ENDS,
    "tensorflow.python.eager.polymorphic_function.concrete_function."
    "ConcreteFunction.__call__": _ENDS,
    "tensorflow.python.eager.polymorphic_function.concrete_function."
    "ConcreteFunction._call_flat": Change(
        "refuses a strategy's program with results of float64 before it runs",
        *("device.program.float64", "tests/programs/test_float64.py"),
    ),
    "tensorflow.python.ops.gradients_util._GradientsHelper": Change(
        "sets the largest number of iterations of a function's loops, which XLA needs",
        *("device.program.loop_bound", "tests/programs/test_loop_bounds.py"),
    ),
    "tensorflow.python.framework.ops.Graph._create_op_internal": _ENDS,
    "tensorflow.python.framework.func_graph.FuncGraph._create_op_internal": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_FastPathExecute": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_Execute": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_ExecuteCancelable": _ENDS,
    "tensorflow.python.eager.cancellation.context": Change(
        "gives each call of a function its own cancellation manager",
        *("queues.eager_calls", "tests/queues/test_two_callers.py"),
    ),
    "tensorflow.python.eager.context.Context.device": Change(
        "refuses /device:IPU:16 and above, for which no simulated IPU exists",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.framework.ops.Graph.device": Change(
        "refuses /device:IPU:16 and above in a graph: no such simulated IPU exists",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.data.ops.dataset_ops.DatasetV2.__iter__": Change(
        "feeds the IPU inside the scope of a strategy that requests it",
        *("device.program.strategy", "tests/device/test_strategy.py"),
    ),
    "tensorflow.python.ops.gen_dataset_ops.*": _HOST_DATASETS,
    "tensorflow.python.ops.gen_experimental_dataset_ops.*": _HOST_DATASETS,
    "tensorflow.python.data.ops.dataset_ops.DatasetV2._GeneratorState."
    "iterator_completed": Change(
        "accepts the end of a generator that no element was requested from",
        *("tf_patches.generator_state", "tests/queues/test_generator_state.py"),
    ),
    "tensorflow.python.data.ops.structured_function."
    "StructuredFunctionWrapper.__init__": Change(
        "traces functions of datasets for the host, in an IPU's scope too",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.function_context."
    "make_function_context": Change(
        "traces a tf.function separately for IPUs, as a program and as part of one",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.tracing_compilation."
    "trace_function": Change(
        "traces a function that draws seeds once for each call inside a program",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.ops.gen_random_ops.*": Change(
        "builds random ops that draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.ops.gen_image_ops.*": Change(
        "builds random crops and boxes that draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_candidate_sampling_ops.*": Change(
        "builds samplers of classes that draw the device's seeds, on an IPU; warns about "
        "those that the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_nn_ops.*": Change(
        "warns about fractional pooling, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.stateful_random_ops.Generator.*": Change(
        "warns about generators without a seed, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow._api.v2.raw_ops.ImageProjectiveTransformV3": Change(
        "becomes gathers in a program for an IPU, since XLA lacks it",
        *("tf_patches.projective", "tests/keras/test_keras_images.py"),
    ),
    "tensorflow.python.ops.gen_image_ops.resize_nearest_neighbor_grad": Change(
        "becomes sums in a program for an IPU, since XLA does not have it",
        *("tf_patches.resize_gradient", "tests/ops/test_resize_gradients.py"),
    ),
    "tensorflow._api.v2.raw_ops.*": Change(
        "builds tf.raw_ops' random ops so that they draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.keras": Change(
        "becomes the Keras in use, for programs that import it by this name",
        *("tf_patches.frozen_keras", "tests/keras/test_keras_optimizers.py"),
    ),
    "keras.src.optimizers.base_optimizer.BaseOptimizer.apply_gradients": Change(
        "takes the `name` of Keras 2, and keeps constraints of TensorFlow's variables",
        *("keras.keras3", "tests/keras/test_keras_optimizers.py"),
    ),
    "keras.src.optimizers.base_optimizer.BaseOptimizer.build": _MOVES,
    "tf_keras.src.optimizers.optimizer._BaseOptimizer.apply_gradients": _MOVES,
    "tf_keras.src.optimizers.optimizer._BaseOptimizer.build": _MOVES,
    "keras.src.optimizers.base_optimizer.BaseOptimizer._backend_apply_gradients": Change(
        "in an IPU's scope, adds up the gradients of replicas before it clips them",
        *("keras.changes.clipping", "tests/keras/test_clipping.py"),
    ),
    "keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer.apply": Change(
        "in an IPU's scope, adds up the gradients of replicas before it checks them",
        *("keras.changes.clipping", "tests/keras/programs/test_loss_scales.py"),
    ),
    "keras.src.backend.tensorflow.optimizer.TFOptimizer._all_reduce_sum_gradients": Change(
        "adds up only what has not been added up before the clipping",
        *("keras.changes.clipping", "tests/keras/test_clipping.py"),
    ),
    "keras.src.utils.python_utils.pythonify_logs": Change(
        "raises a KeyboardInterrupt, which Keras drops",
        *("keras.changes.logs", "tests/keras/test_fit.py"),
    ),
    "keras.src.saving.saving_lib._model_from_config": Change(
        "restores the IPU options of a saved model when it is loaded",
        *("keras.keras3", "tests/keras/test_keras_saving.py"),
    ),
    "keras.src.saving.saving_lib.get_attr_skipset": Change(
        "builds the objects that saved ones are compared with outside of a scope",
        *("keras.changes.files", "tests/programs/test_popdist_strategy.py"),
    ),
    "keras.src.utils.tf_utils.tf_encode_categorical_inputs": Change(
        "selects Keras's other implementation in a program, since XLA lacks its bincount",
        *("keras.changes.encoding", "tests/keras/test_keras_images.py"),
    ),
    "keras.src.layers.preprocessing.discretization.Discretization.adapt": _ADAPTS,
    "keras.src.layers.preprocessing.integer_lookup.IntegerLookup.adapt": _ADAPTS,
    "keras.src.layers.preprocessing.normalization.Normalization.adapt": _ADAPTS,
    "keras.src.layers.preprocessing.string_lookup.StringLookup.adapt": _ADAPTS,
    "keras.src.layers.preprocessing.text_vectorization.TextVectorization.adapt": _ADAPTS,
    "keras.src.random.seed_generator.SeedGenerator.next": Change(
        "draws the device's seeds on an IPU whose seed was reset",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.autograph.core.config.CONVERSION_RULES": Change(
        "does not rewrite functions of ipufeed",
        *("queues.autograph", "tests/device/loops/test_loops.py"),
    ),
    "tensorflow.python.ops.cond.util": Change(
        "makes tf.cond build an If operation in the body of a version 1 loop",
        *("tf_patches.loop_version", "tests/device/loops/test_loop_gradients.py"),
    ),
    "tensorflow.python.ops.control_flow_util.ENABLE_CONTROL_FLOW_V2": Change(
        "follows `repeat`'s argument while it builds a loop in a version 1 graph",
        *("tf_patches.loop_version", "tests/device/loops/test_loops.py"),
    ),
    "tensorflow.python.ops.while_v2.while_loop": Change(
        "accumulates gradients in a loop of TensorFlow's own",
        *("device.program.plain_loops", "tests/parallel/test_plain_loops.py"),
    ),
    "tensorflow.python.ops.control_flow_ops.WhileContext.BuildLoop": Change(
        "accumulates gradients in a loop of TensorFlow's own, in a version 1 graph",
        *("device.program.plain_loops", "tests/parallel/test_plain_loops.py"),
    ),
    "tensorflow.python.ops.gen_logging_ops._assert": Change(
        "keeps assertions in compiled programs of an IPU",
        *("tf_patches.asserts", "tests/programs/test_asserts.py"),
    ),
    **dict.fromkeys(
        (
            "tensorflow.python.ops.custom_gradient.recompute_grad",
            "tensorflow.recompute_grad",
            # Modules have one name or the other, by the first import.
            *(f"tensorflow._api.v2.compat.v{n}.recompute_grad" for n in (1, 2)),
            *(f"tensorflow.compat.v{n}.recompute_grad" for n in (1, 2)),
        ),
        Change(
            "the recomputation gets the seeds that the forward has drawn",
            *("device.random.recomputed", "tests/ops/test_recomputed_seeds.py"),
        ),
    ),
    "tensorflow.python.ops.parallel_for.pfor.PFor.__init__": Change(
        "refuses queue operations in tf.vectorized_map, which would lose elements",
        *("tf_patches.vectorized_map", "tests/queues/test_order.py"),
    ),
    "tensorflow.compat.v1.estimator": Change(
        "has what programs with an IPUEstimator use of TensorFlow's own",
        *("tf_patches.removed_names", "tests/estimators/test_tf_estimator.py"),
    ),
    **dict.fromkeys(
        ("tensorflow.compat.v1.layers.*", "tensorflow.compat.v1.nn.rnn_cell.*"),
        Change(
            "has what TensorFlow keeps of version 1 without public names",
            *("tf_patches.removed_names", "tests/programs/test_removed_names.py"),
        ),
    ),
    **dict.fromkeys(
        (
            *("keras._tf_keras.keras.losses.*", "keras._tf_keras.keras.metrics.*"),
            "keras._tf_keras.keras.layers.experimental",
            *("keras._tf_keras.keras.experimental", "tensorflow.keras.experimental"),
            "keras.mixed_precision.experimental",
            *("tensorflow.keras.losses.*", "tensorflow.keras.metrics.*"),
            "tensorflow.keras.layers.experimental",
            "tensorflow.keras.mixed_precision.experimental",
            "tf_keras.api._v2.keras.mixed_precision.experimental",
        ),
        Change(
            "has names of Keras 2 that have another place, or none, since",
            *("tf_patches.removed_names", "tests/programs/test_removed_names.py"),
        ),
    ),
    "tensorflow.python.ops.script_ops._py_funcs._funcs.*": Change(
        "has the functions that a SavedModel's calls of an engine name by their tokens",
        *("applications.saved_calls", "tests/applications/test_embedded_runtime.py"),
    ),
    # Methods of models.
    **{f"{kind}.{name}": _CALLS for kind in (_TRAINER_3, _KERAS_2) for name in _CALLED},
    "keras.src.trainers.trainer.Trainer.compile": _COMPILE,
    f"{_KERAS_2}.compile": _COMPILE,
    f"{_KERAS_3}.get_build_config": _SAVES,
    **{
        f"{place}.{name}": _KEEPS
        for place, name in (
            ("keras.src.legacy.saving.saving_utils", "model_metadata"),
            ("keras.src.legacy.saving.legacy_h5_format", "load_model_from_hdf5"),
            ("tf_keras.src.saving.legacy.saving_utils", "model_metadata"),
            ("tf_keras.src.saving.legacy.hdf5_format", "load_model_from_hdf5"),
            ("tf_keras.src.saving.legacy.saved_model.load", "load"),
        )
    },
    f"{_KERAS_2}.get_build_config": _SAVES,
    f"{_KERAS_3}.*": _METHODS,
    f"{_KERAS_2}.*": _METHODS,
    "keras.src.models.sequential.Sequential.add": _LAYERS,
    "keras.src.models.sequential.Sequential.pop": _LAYERS,
    "keras.src.layers.layer.Layer.__new__": _STAGES,
    "keras.src.layers.layer.Layer.add_weight": Change(
        "adds weights to a layer on an IPU there, outside of the scope too",
        *("keras.changes.weights", "tests/keras/programs/test_quantizing.py"),
    ),
    "keras.src.ops.node.Node.__new__": _STAGES,
    "tf_keras.src.engine.base_layer.Layer.__new__": _STAGES,
    "tf_keras.src.engine.node.Node.__new__": _STAGES,
    "tf_keras.src.engine.data_adapter.single_batch_iterator": Change(
        "has the batch of train_on_batch once for each replica",
        *(_LEGACY, _STRATEGIES),
    ),
    f"{_KERAS_2}.build_from_config": Change(
        "restores the IPU options of a saved model when it is loaded",
        *("keras.legacy_keras", "tests/keras/test_legacy_keras.py"),
    ),
    # Restrictions of tf_keras, lifted in the scope of an IPUStrategy.
    "tf_keras.src.engine.base_preprocessing_layer.PreprocessingLayer.adapt": Change(
        "reads its data on the host, in an IPU's scope too",
        *(_LEGACY, "tests/keras/test_adapting.py"),
    ),
    "tf_keras.src.mixed_precision.loss_scale_optimizer.strategy_supports_loss_scaling": (
        Change("allows float16 policies and loss scales", *(_LEGACY, _STRATEGIES))
    ),
    "tf_keras.src.optimizers.utils.all_reduce_sum_gradients": Change(
        "adds up the gradients of replicas", *(_LEGACY, _STRATEGIES)
    ),
    "tf_keras.src.losses.Loss._get_reduction": Change(
        "allows a loss with the default reduction in a custom training step",
        *(_LEGACY, _STRATEGIES),
    ),
    "tf_keras.src.layers.rnn.base_rnn.RNN.__init__": Change(
        "allows stateful recurrent layers", *(_LEGACY, _STRATEGIES)
    ),
    "tf_keras.src.callbacks.BackupAndRestore.__init__": Change(
        "allows the callback BackupAndRestore", *(_LEGACY, _STRATEGIES)
    ),
    "tf_keras.src.layers.preprocessing.preprocessing_utils.dense_bincount": Change(
        "adds up one-hot vectors in a program, since XLA lacks bincount",
        *(_LEGACY, "tests/keras/test_legacy_encodings.py"),
    ),
}


def replace(owner: types.ModuleType | type, name: str, replacement: object) -> None:
    """Replaces an attribute of a module or class of TensorFlow.

    Raises:
        KeyError: The change is not in the table.
    """
    place = owner.__name__
    if isinstance(owner, type):
        place = f"{owner.__module__}.{owner.__qualname__}"
    _require_row(place, name)
    setattr(owner, name, replacement)


def add_entry(
    place: str, entries: MutableMapping[str, object], name: str, value: object
) -> None:
    """Adds an entry to a table of TensorFlow, such as the names of a lazy module.

    Args:
        place: The table's name in CHANGES.
        entries: The table.
        name: The entry's name.
        value: The entry.

    Raises:
        KeyError: The change is not in the table of changes.
    """
    _require_row(place, name)
    entries[name] = value


def _require_row(place: str, name: str) -> None:
    if f"{place}.{name}" not in CHANGES and f"{place}.*" not in CHANGES:
        raise KeyError(f"{place}.{name} is replaced, and CHANGES has no row for it")
