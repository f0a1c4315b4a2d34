"""The kit of Keras 3, on its TensorFlow backend.

Public names come from keras; private ones of keras.src are imported here, in
changes and in pipeline/keras3_*.py only.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.callbacks.callback_list import CallbackList
from keras.src.losses.loss import unscale_loss_for_distribution
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
from keras.src.utils.python_utils import pythonify_logs

from ipufeed.keras.changes.files import KEY
from ipufeed.keras.changes.functions import MAKERS
from ipufeed.keras.changes.moving import (
    move_at_first_use,
    move_optimizer,
    move_variables,
)
from ipufeed.keras.checks.arguments import (
    check_compiled,
    check_execution,
    check_target,
)
from ipufeed.keras.checks.batches import BatchCheck
from ipufeed.keras.data.partial_batch import PartialBatch
from ipufeed.keras.data.shapes import with_shapes
from ipufeed.keras.feed import shuffle_again
from ipufeed.keras.kit import Source
from ipufeed.keras.pipeline import scope
from ipufeed.keras.pipeline.calls import Graph, Logs
from ipufeed.keras.pipeline.keras3_kit import Pipelines
from ipufeed.keras.programs import STEPS, own_objects, trace_step
from ipufeed.keras.refusals import (
    check_not_overridden,
    refuse_override,
    refuse_without_call,
    refuse_without_shapes,
    warn_of_average,
)
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import (
    Config,
    GradAndVar,
    KerasModel,
    Nest,
    NestFunction,
    Tensor,
    Variable,
)

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


class Keras3(Pipelines):
    """The kit of Keras 3; kit.Kit describes the methods."""

    trainer = TRAINER
    name = f"Keras {keras.__version__}"
    ignored: frozenset[str] = frozenset()
    fewest_epochs = 0  # builds the model, and trains nothing
    takes_version_1 = False
    converts = False  # nor does Keras 3

    def source(self, model: KerasModel, arguments: dict[str, Any]) -> Source:
        """See kit.Kit: arrays, tensors, tf.data, generators and PyDatasets.

        Generators and PyDatasets have the shapes of their first batch.

        Raises:
            ValueError: Data of another kind, whose shapes are unknown.
        """
        del model
        adapter = self._adapter(arguments)
        batches = adapter.num_batches
        check = BatchCheck("generator")
        if isinstance(adapter, GeneratorDataAdapter):
            adapter.generator = check.watched(adapter.generator)
        elif isinstance(adapter, PyDatasetAdapter):
            data = adapter.py_dataset
            first = adapter._standardize_batch(data[0]) if batches != 0 else None
            check = BatchCheck("PyDataset", first)
            adapter._get_iterator = check.watched(adapter._get_iterator)
        dataset = adapter.get_tf_dataset()
        if isinstance(adapter, TFDatasetAdapter):
            endless = int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
            return Source(
                dataset,
                batches,
                None,
                renewed=False,
                endless=endless,
                epoch_done=functools.partial(shuffle_again, dataset),
            )
        if isinstance(adapter, GeneratorDataAdapter):
            dataset, _ = with_shapes(dataset, adapter._first_batches[0])
            return Source(dataset, None, None, renewed=False, check=check)
        if isinstance(adapter, PyDatasetAdapter):
            last = None
            if batches is not None:
                last = adapter._standardize_batch(data[batches - 1])
            dataset, smaller = with_shapes(dataset, first, last, check)

            def reset(mode: str) -> None:  # as Keras resets its iterator
                if mode != "predict":
                    adapter.on_epoch_end()

            return Source(
                dataset,
                batches,
                smaller,
                renewed=True,
                endless=batches is None,
                call_begins=reset,
                epoch_begins=adapter.on_epoch_begin,
                epoch_ends=adapter.on_epoch_end,
                check=check,
            )
        rest = adapter.partial_batch_size
        return Source(
            dataset,
            batches,
            PartialBatch(adapter.batch_size, rest, of_arrays=True) if rest else None,
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

    def split(self, arrays: Nest, fraction: float) -> Nest:
        return array_slicing.train_validation_split(arrays, validation_split=fraction)

    def unpack(self, data: Nest) -> Nest:
        return data_adapter_utils.unpack_x_y_sample_weight(data)

    def check(self, model: KerasModel, mode: str) -> None:
        """See kit.Kit.

        Raises:
            NotImplementedError: A subclass has no `call`.
            RuntimeError: The model overrides the function of its steps.
        """
        refuse_without_call(model, MODEL, STEPS[mode])
        check_not_overridden(model, TRAINER, MAKERS[mode])
        if mode != "predict":
            model._assert_compile_called(mode)

    def steps_per_execution(self, model: KerasModel) -> int:
        return check_execution(model.steps_per_execution)

    def set_steps_per_execution(self, model: KerasModel, steps: int) -> None:
        model.steps_per_execution = steps

    def build(self, model: KerasModel, zeros: Nest, mode: str) -> None:
        """See kit.Kit: predict needs no loss, optimizer or metric."""
        self.adopt(model)
        # Its own step may call other models, or call this one with all of an element.
        own_step = getattr(type(model), STEPS[mode]) is not getattr(MODEL, STEPS[mode])
        if own_step or type(model).call is MODEL.call:
            move_variables(model.metrics_variables)
            trace_step(self, model, zeros, mode)
            return
        x, y, _ = self.unpack(zeros)
        if mode == "predict":
            if not all(layer.built for layer in model._flatten_layers()):
                spec = keras.src.backend.compute_output_spec
                spec(model, _symbolic(x), training=False)
            return
        if type(model).compute_loss is MODEL.compute_loss:
            check_compiled(model, mode)
            check_target(model, y, mode)
        model._symbolic_build(data_batch=zeros)
        move_variables(model.metrics_variables)

    def prepare_batch(self, model: KerasModel) -> None:
        """See kit.Kit: Keras 3 compiles it by itself."""

    def adopt(self, model: KerasModel) -> None:
        """See kit.Kit: there is not an optimizer before `compile`."""
        own = own_objects(model, BaseOptimizer)
        for optimizer in {getattr(model, "optimizer", None), *own}:
            for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
                if isinstance(each, BaseOptimizer) and not each.built:
                    move_optimizer(each)

    def callbacks(
        self,
        model: KerasModel,
        callbacks: object,
        verbose: str | int,
        epochs: int,
        steps: int,
    ) -> Any:
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

    def numbers(self, logs: Nest) -> Logs:
        return dict(pythonify_logs(logs))

    def in_order(self, model: KerasModel, logs: Logs) -> Nest:
        return model._flatten_metrics_in_order(logs)

    def initial_epoch(self, model: KerasModel, initial_epoch: int) -> int:
        return int(model._initial_epoch or initial_epoch)

    def finish(self, model: KerasModel) -> None:
        """See kit.Kit: with use_ema, the averages become the weights."""
        if isinstance(model.optimizer, BaseOptimizer):
            model.optimizer.finalize_variable_values(model.trainable_weights)

    def training(
        self, model: KerasModel, mode: str
    ) -> contextlib.AbstractContextManager[object]:
        del model, mode
        return contextlib.nullcontext()

    def ran(self, model: KerasModel, mode: str, first: int, steps: int) -> None:
        """See kit.Kit: Keras 3 counts in its callbacks."""

    def step(self, model: KerasModel, mode: str) -> NestFunction:
        return getattr(model, STEPS[mode])  # type: ignore[no-any-return]

    def forward(self, model: KerasModel, weights: list[Variable]) -> NestFunction:
        """See kit.Kit: Keras's train_step, up to the gradients."""

        def step(data: Nest) -> tuple[Nest, list[Tensor]]:
            x, y, sample_weight = self.unpack(data)
            with tf.GradientTape() as tape:
                training = {"training": True} if model._call_has_training_arg else {}
                y_pred = model(x, **training)
                loss = model._compute_loss(
                    x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
                )
                samples = tf.shape(tf.nest.flatten(x)[0])[0]
                whole = unscale_loss_for_distribution(loss)
                model._loss_tracker.update_state(whole, sample_weight=samples)
                loss = model.optimizer.scale_loss(loss)
            gradients = tape.gradient(loss, [each.value for each in weights])
            logs = model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
            return logs, gradients

        return step

    def check_step_not_overridden(self, model: KerasModel, function: str) -> None:
        """See kit.Kit: a functional model must not override `call`, either."""
        if getattr(type(model), function) is not getattr(TRAINER, function):
            when = "for pipelined Keras models"
            if function == "train_step":
                when = "when using Keras within an IPUStrategy"
            refuse_override(model, function, when)
        for base in (keras.Sequential, Functional):
            if isinstance(model, base) and type(model).call is not base.call:
                kind = "Sequential" if base is keras.Sequential else "Functional"
                refuse_override(model, "call", f"for pipelined Keras {kind} models")

    def warn_of_averages(self, model: KerasModel, graph: Graph) -> None:
        normal = keras.layers.BatchNormalization
        for call in graph.flat():
            if isinstance(call.operation, normal) and 0 < call.operation.momentum < 1:
                warn_of_average(model, call.operation)

    def variables(self, variables: list[Variable]) -> list[Variable]:
        return [each.value for each in variables]

    def metric_variables(self, model: KerasModel) -> list[Variable]:
        return self.variables(model.metrics_variables)


def note_stages() -> None:
    """Makes layers and their calls record the PipelineStage that they are made in."""
    scope.note(keras.layers.Layer)
    scope.note(Node)


def restore_options(restore: Callable[[KerasModel, Config | None], None]) -> None:
    """Makes Keras's loading of a model restore the options of the file."""
    stock = saving_lib._model_from_config

    def make(config_json: str, *arguments: object, **keywords: object) -> KerasModel:
        model = stock(config_json, *arguments, **keywords)
        build = json.loads(config_json).get("build_config") or {}
        restore(model, build.get(KEY))
        return model

    replace(saving_lib, "_model_from_config", make)


def accept_arguments() -> None:
    """Lets `apply_gradients` of Keras 3's optimizers take what Keras 2's take.

    A `name`, which a subclass that is written for Keras 2 passes on to its base class; and
    TensorFlow's variables, as those of a pipeline, whose constraints hold.
    """
    apply = BaseOptimizer.apply_gradients

    @functools.wraps(apply)
    def apply_gradients(
        self: BaseOptimizer,
        grads_and_vars: Iterable[GradAndVar],
        name: str | None = None,
    ) -> Tensor:
        del name
        return apply(self, _with_constraints(self, grads_and_vars))

    replace(BaseOptimizer, "apply_gradients", apply_gradients)


def move_optimizers() -> None:
    """Moves optimizers that were made outside of the scope at their first use in it."""
    move_at_first_use(BaseOptimizer, ("build",), lambda o: o.built, move_optimizer)


def _with_constraints(
    optimizer: BaseOptimizer, pairs: Iterable[GradAndVar]
) -> list[GradAndVar]:
    """Puts Keras's variables, which hold the constraints, in the place of TensorFlow's."""
    constrained = {
        id(each._value): each
        for each in getattr(optimizer, "_trainable_variables", ())
        if isinstance(each, keras.Variable) and each.constraint is not None
    }
    return [
        (gradient, constrained.get(id(variable), variable))
        for gradient, variable in pairs
    ]


def _symbolic(x: Nest) -> Nest:
    return tf.nest.map_structure(
        lambda each: keras.KerasTensor(each.shape, each.dtype.name), x
    )


KIT = Keras3()
