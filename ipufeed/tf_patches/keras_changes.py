"""Table of the attributes of Keras and tf_keras that ipufeed replaces, with reasons.

A part of `changes.CHANGES`.
"""

from __future__ import annotations

from ipufeed.tf_patches.change import Change

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
KERAS_CHANGES = {
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
        *("keras.changes.files", "tests/parallel/test_processes_alone.py"),
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
        *("device.random.patches", "tests/device/test_seeds.py"),
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
    **dict.fromkeys(
        (
            "tf_keras.src.saving.saving_lib.save_model",
            "tf_keras.src.saving.saving_lib.save_weights_only",
            "tf_keras.src.saving.legacy.save.save_model",
        ),
        Change(
            "saves a model's metrics as those of its own process",
            *("keras.changes.files", "tests/parallel/test_processes_alone.py"),
        ),
    ),
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
