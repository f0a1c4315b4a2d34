"""What the calls need of Keras 3, on its TensorFlow backend.

Public names come from keras; what stands below keras.src is Keras's own and is imported
here, and nowhere else in the package.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.callbacks.callback_list import CallbackList
from keras.src.models.functional import Functional
from keras.src.ops.node import Node
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.saving import saving_lib
from keras.src.trainers.data_adapters import (
    array_slicing,
    data_adapter_utils,
    get_data_adapter,
)
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import (
    GeneratorDataAdapter,
)
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from keras.src.trainers.trainer import Trainer
from keras.src.utils import tf_utils
from keras.src.utils.python_utils import pythonify_logs

from ipufeed.device.log import LOGGER
from ipufeed.device.random.ops import on_ipu
from ipufeed.keras.feed import Source, with_shapes
from ipufeed.keras.pipeline import scope
from ipufeed.keras.refusals import (
    check_not_overridden,
    refuse_override,
    refuse_without_call,
    refuse_without_shapes,
)
from ipufeed.tf_patches.changes import replace

MODEL = keras.Model
# The classes that have fit, evaluate and predict, and compile.
TRAINER = TensorFlowTrainer
COMPILER = Trainer

ADAPTERS = (
    ArrayDataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
)
MAKERS = {
    "fit": "make_train_function",
    "evaluate": "make_test_function",
    "predict": "make_predict_function",
}


class Keras3:
    """See kit.Kit."""

    name = f"Keras {keras.__version__}"
    ignored: frozenset[str] = frozenset()

    def source(self, model: Any, arguments: dict[str, Any]) -> Source:
        """Arrays, tensors, tf.data, generators and PyDatasets.

        Generators and PyDatasets have the shapes of their first batch.

        Raises:
            ValueError: Data of another kind, which does not state its shapes.
        """
        del model
        adapter = self._adapter(arguments)
        batches = adapter.num_batches
        dataset = adapter.get_tf_dataset()
        if isinstance(adapter, TFDatasetAdapter):
            endless = int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
            return Source(dataset, batches, None, renewed=False, endless=endless)
        if isinstance(adapter, GeneratorDataAdapter):
            dataset, _ = with_shapes(dataset, adapter._first_batches[0])
            return Source(dataset, None, None, renewed=False)
        if isinstance(adapter, PyDatasetAdapter):
            data, last = adapter.py_dataset, None
            if batches is not None:
                last = adapter._standardize_batch(data[batches - 1])
            first = adapter._standardize_batch(data[0])
            dataset, smaller = with_shapes(dataset, first, last)
            return Source(
                dataset,
                batches,
                smaller,
                renewed=True,
                endless=batches is None,
                epoch_begins=adapter.on_epoch_begin,
                epoch_ends=adapter.on_epoch_end,
            )
        partial = adapter.has_partial_batch
        return Source(
            dataset,
            batches,
            adapter.batch_size if partial else None,
            renewed=True,
            epoch_begins=adapter.on_epoch_begin,
            epoch_ends=adapter.on_epoch_end,
        )

    def _adapter(self, arguments: dict[str, Any]) -> Any:
        x = arguments["x"]
        adapter = get_data_adapter(
            x=x,
            y=arguments.get("y"),
            sample_weight=arguments.get("sample_weight"),
            batch_size=arguments.get("batch_size"),
            steps_per_epoch=arguments.get("steps"),
            shuffle=arguments.get("shuffle", False),
            class_weight=arguments.get("class_weight"),
        )
        if not isinstance(adapter, ADAPTERS):
            refuse_without_shapes(x)
        return adapter

    def split(self, arrays: Any, fraction: float) -> Any:
        """See kit.Kit."""
        return array_slicing.train_validation_split(arrays, validation_split=fraction)

    def unpack(self, data: Any) -> Any:
        """See kit.Kit."""
        return data_adapter_utils.unpack_x_y_sample_weight(data)

    def check(self, model: Any, mode: str) -> None:
        """See kit.Kit.

        Raises:
            NotImplementedError: A subclass has no `call`.
            RuntimeError: One that makes its own functions for the steps.
        """
        refuse_without_call(model, MODEL)
        check_not_overridden(model, TRAINER, MAKERS[mode])
        if mode != "predict":
            model._assert_compile_called(mode)

    def steps_per_execution(self, model: Any) -> int:
        """See kit.Kit."""
        return int(model.steps_per_execution)

    def build(self, model: Any, zeros: Any, mode: str) -> None:
        """See kit.Kit: predict needs no loss, optimizer or metric."""
        if mode == "predict":
            x, _, _ = self.unpack(zeros)
            if not all(layer.built for layer in model._flatten_layers()):
                keras.src.backend.compute_output_spec(
                    model, _symbolic(x), training=False
                )
            return
        model._symbolic_build(data_batch=zeros)
        _move_here(model.metrics_variables)

    def adopt(self, model: Any) -> None:
        """See kit.Kit: an optimizer has its learning rate and count from the beginning."""
        optimizer = model.optimizer
        for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if isinstance(each, BaseOptimizer) and not each.built:
                each._distribution_strategy = model.distribute_strategy
                _move_here(each.variables)

    def callbacks(
        self, model: Any, callbacks: Any, verbose: Any, epochs: int, steps: int
    ) -> Any:
        """See kit.Kit."""
        if isinstance(callbacks, CallbackList):
            return callbacks
        return CallbackList(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            verbose=1 if verbose == "auto" else verbose,
            epochs=epochs,
            steps=steps,
            model=model,
        )

    def numbers(self, logs: Any) -> dict[str, Any]:
        """See kit.Kit."""
        return dict(pythonify_logs(logs))

    def in_order(self, model: Any, logs: dict[str, Any]) -> Any:
        """See kit.Kit."""
        return model._flatten_metrics_in_order(logs)

    def initial_epoch(self, model: Any, initial_epoch: int) -> int:
        """See kit.Kit."""
        return int(model._initial_epoch or initial_epoch)

    def finish(self, model: Any) -> None:
        """See kit.Kit: with use_ema, the averages become the weights."""
        if isinstance(model.optimizer, BaseOptimizer):
            model.optimizer.finalize_variable_values(model.trainable_weights)

    def training(self, model: Any, mode: str) -> Any:
        """See kit.Kit."""
        del model, mode
        return contextlib.nullcontext()

    def ran(self, model: Any, mode: str, first: int, steps: int) -> None:
        """See kit.Kit: Keras 3 counts in its callbacks."""

    def step(self, model: Any, mode: str) -> Callable[[Any], Any]:
        """See kit.Kit."""
        steps = {
            "fit": model.train_step,
            "evaluate": model.test_step,
            "predict": model.predict_step,
        }
        return steps[mode]  # type: ignore[no-any-return]

    def forward(self, model: Any, weights: list[Any]) -> Callable[[Any], Any]:
        """See kit.Kit: Keras's train_step, up to the gradients."""

        def step(data: Any) -> Any:
            x, y, sample_weight = self.unpack(data)
            with tf.GradientTape() as tape:
                training = {"training": True} if model._call_has_training_arg else {}
                y_pred = model(x, **training)
                loss = model._compute_loss(
                    x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
                )
                samples = tf.shape(tf.nest.flatten(x)[0])[0]
                model._loss_tracker.update_state(loss, sample_weight=samples)
                loss = model.optimizer.scale_loss(loss)
            gradients = tape.gradient(loss, [each.value for each in weights])
            logs = model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
            return logs, gradients

        return step

    # ---- Pipelines; see pipelining.py

    def kind(self, model: Any) -> str:
        """The kind of model that decides on the class of its assignments."""
        if isinstance(model, keras.Sequential):
            return "sequential"
        return "functional" if isinstance(model, Functional) else "model"

    def is_taken_apart(self, model: Any) -> bool:
        """Whether the calls of a model are known without calling it."""
        return isinstance(model, (keras.Sequential, Functional))

    def may_be_pipelined(self, model: Any, given: Any) -> bool:
        """Whether it is worth looking: a stage was set, or a scope has been entered."""
        del model
        return given is not None or scope.times_entered() > 0

    def x(self, example: Any) -> Any:
        """The inputs of an element."""
        return self.unpack(example)[0]

    def example(self, model: Any) -> Any:
        """Inputs of a subclass that was built; None if their shapes are not known."""
        shapes = getattr(model, "_build_shapes_dict", None)
        if not shapes or len(shapes) != 1:
            return None
        (shape,) = shapes.values()
        if isinstance(shape, dict) or (shape and isinstance(shape[0], (list, tuple))):
            return None
        return keras.KerasTensor(shape, model.input_dtype)

    def inputs(self, model: Any, element: Any) -> list[Any]:
        """The flat inputs of a model, in the order of its graph."""
        x = self.x(element)
        if isinstance(model, Functional):
            return list(model._standardize_inputs(x))
        return list(keras.tree.flatten(x))

    def check_step_not_overridden(self, model: Any, function: str) -> None:
        """The steps of a pipeline are made of layers.

        Raises:
            RuntimeError: The model has its own, or a functional one its own `call`.
        """
        if getattr(type(model), function) is not getattr(TRAINER, function):
            when = "for pipelined Keras models"
            if function == "train_step":
                when = "when using Keras within an IPUStrategy"
            refuse_override(model, function, when)
        for base in (keras.Sequential, Functional):
            if isinstance(model, base) and type(model).call is not base.call:
                kind = "Sequential" if base is keras.Sequential else "Functional"
                refuse_override(model, "call", f"for pipelined Keras {kind} models")

    def warn_of_averages(self, model: Any, graph: Any) -> None:
        """Moving averages see each mini-batch, in the order of the schedule."""
        normal = keras.layers.BatchNormalization
        for call in graph.flat():
            layer = call.operation
            if isinstance(layer, normal) and 0 < layer.momentum < 1:
                LOGGER.warning(
                    "The model `%s` has the BatchNormalization layer `%s` with momentum "
                    "%s: its moving statistics in pipelined models are not properly "
                    "updated when training.",
                    *(model.name, layer.name, layer.momentum),
                )

    def number_of_logs(self, model: Any) -> int:
        """Values that the last stage enqueues."""
        return len(model.get_metrics_result())

    def finish_step(
        self, model: Any, data: Any, y_pred: Any, losses: Any, mode: str
    ) -> tuple[Any, dict[str, Any]]:
        """The scaled loss and the logs of a step, from outputs and the layers' losses."""
        x, y, sample_weight = self.unpack(data)
        loss = losses
        if type(model).compute_loss is not COMPILER.compute_loss:
            loss = model._compute_loss(
                x, y, y_pred, sample_weight, training=mode == "fit"
            )
        elif model._compile_loss is not None:
            value = model._compile_loss(y, y_pred, sample_weight)
            if value is not None:
                loss = value + tf.cast(losses, value.dtype)
        samples = tf.shape(tf.nest.flatten(x)[0])[0]
        model._loss_tracker.update_state(loss, sample_weight=samples)
        if mode == "fit":
            loss = model.optimizer.scale_loss(loss)
        return loss, model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def metric_variables(self, model: Any) -> list[Any]:
        """See kit.Kit."""
        return [each.value for each in model.metrics_variables]


def note_stages() -> None:
    """Lets layers and their calls know the PipelineStage that they are made in."""
    scope.note(keras.layers.Layer)
    scope.note(Node)


def restore_options(restore: Callable[[Any, dict[str, Any]], None]) -> None:
    """Lets what makes a model of a file set the options that the file has."""
    stock = saving_lib._model_from_config

    def make(config_json: Any, *arguments: Any, **keywords: Any) -> Any:
        model = stock(config_json, *arguments, **keywords)
        restore(model, json.loads(config_json))
        return model

    replace(saving_lib, "_model_from_config", make)


def encode_without_bincount() -> None:
    """Lets CategoryEncoding and its like use keras.ops in a program.

    Keras counts with tf.math.bincount, of whose result XLA cannot know the shape; where
    that raises ValueError, Keras has another way.
    """
    stock = tf_utils.tf_encode_categorical_inputs

    def encode(*arguments: Any, **keywords: Any) -> Any:
        if not tf.executing_eagerly() and on_ipu():
            raise ValueError("There is no bincount in a program of an IPU.")
        return stock(*arguments, **keywords)

    replace(tf_utils, "tf_encode_categorical_inputs", encode)


def _symbolic(x: Any) -> Any:
    """Symbolic tensors like these."""
    return tf.nest.map_structure(
        lambda each: keras.KerasTensor(each.shape, each.dtype.name), x
    )


def _move_here(variables: list[Any]) -> None:
    """Puts variables that were made outside of the scope onto the IPU of this one."""
    here = tf.distribute.get_strategy().extended._default_device
    for each in variables:
        old = each._value
        if not old.device.endswith(here):
            name = old.name.partition(":")[0]
            each._value = tf.Variable(old, trainable=old.trainable, name=name)


KIT = Keras3()
