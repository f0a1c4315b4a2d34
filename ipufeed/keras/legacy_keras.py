"""The kit of tf_keras, the Keras 2 that TF_USE_LEGACY_KERAS=1 selects as tf.keras.

Private names of tf_keras.src are imported here, in pipeline/legacy_*.py and in changes
only. tf_keras is no longer developed, so that these names are stable.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras
from tf_keras.src.callbacks import CallbackList
from tf_keras.src.engine import data_adapter
from tf_keras.src.engine.functional import Functional
from tf_keras.src.engine.node import Node
from tf_keras.src.engine.training import _get_verbosity, flatten_metrics_in_order
from tf_keras.src.engine.training_utils import RespectCompiledTrainableState
from tf_keras.src.optimizers.optimizer import _BaseOptimizer
from tf_keras.src.utils import tf_utils

from ipufeed.keras.changes import legacy
from ipufeed.keras.changes.files import KEY
from ipufeed.keras.changes.functions import MAKERS
from ipufeed.keras.changes.moving import move_at_first_use, move_legacy_optimizer
from ipufeed.keras.checks.arguments import check_execution
from ipufeed.keras.checks.batches import BatchCheck
from ipufeed.keras.data.partial_batch import PartialBatch
from ipufeed.keras.data.shapes import with_shapes
from ipufeed.keras.feed import shuffle_again
from ipufeed.keras.kit import Source
from ipufeed.keras.pipeline import scope
from ipufeed.keras.pipeline.calls import Graph, Logs
from ipufeed.keras.pipeline.legacy_kit import Pipelines
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
    Dataset,
    KerasLayer,
    KerasModel,
    Nest,
    NestFunction,
    Tensor,
    Variable,
)

MODEL = keras.Model

ARRAYS = (
    data_adapter.TensorLikeDataAdapter,
    data_adapter.ListsOfScalarsDataAdapter,
    data_adapter.CompositeTensorDataAdapter,
)


class LegacyKeras(Pipelines):
    """The kit of tf_keras; kit.Kit describes the methods."""

    trainer = MODEL
    name = f"tf_keras {keras.__version__}"
    # Arguments on generators, without an effect.
    ignored = frozenset({"max_queue_size", "workers", "use_multiprocessing"})
    fewest_epochs = 1
    takes_version_1 = True
    converts = True  # as tf_keras's own functions

    def source(self, model: KerasModel, arguments: dict[str, Any]) -> Source:
        """See kit.Kit: arrays, tensors, tf.data, generators and Sequences.

        Generators and Sequences have the shapes of their first batch.

        Raises:
            ValueError: Data of another kind, whose shapes are unknown.
        """
        x, y = arguments["x"], arguments.get("y")
        kind = data_adapter.select_data_adapter(x, y)
        generates = issubclass(kind, data_adapter.GeneratorDataAdapter)
        if not (generates or issubclass(kind, (*ARRAYS, data_adapter.DatasetAdapter))):
            refuse_without_shapes(x)
        batch, check = None, None
        if hasattr(x, "__next__"):
            batch = next(x, None)
            if batch is None:
                raise ValueError("The generator has ended before its first batch.")
            x = itertools.chain([batch], x)
        elif generates:
            batch = x[0]
        if generates:
            check = BatchCheck("generator" if hasattr(x, "__next__") else "Sequence")
            kind = _watched(kind, check)
        epochs = arguments.get("epochs", 1)
        # A generator's batch would build the model at once; `build` does.
        own = {"model": None if generates else model}
        adapter = kind(
            x,
            y,
            batch_size=arguments.get("batch_size"),
            steps=arguments.get("steps"),
            epochs=1 if generates else epochs,
            sample_weights=arguments.get("sample_weight"),
            shuffle=arguments.get("shuffle", False),
            distribution_strategy=model.distribute_strategy,
            **own,
        )
        dataset, weights = adapter.get_dataset(), arguments.get("class_weight")
        if weights:
            dataset = dataset.map(data_adapter._make_class_weight_map_fn(weights))
        if kind is data_adapter.DatasetAdapter:
            size = int(dataset.cardinality())

            def begin(mode: str) -> None:  # as its DataHandler does
                if arguments.get("steps") is None:
                    shuffle_again(dataset)

            return Source(
                dataset,
                size if size >= 0 else None,
                None,
                renewed=False,
                endless=size == tf.data.INFINITE_CARDINALITY,
                call_begins=begin,
            )
        if check is not None:
            return self._generated(adapter, dataset, batch, check)
        rest = adapter.partial_batch_size()
        size = adapter.batch_size()
        return Source(
            dataset,
            adapter.get_size(),
            PartialBatch(size, rest, of_arrays=True) if rest else None,
            renewed=False,
            holds_epochs=True,
            epoch_ends=adapter.on_epoch_end,
        )

    def _generated(
        self, adapter: Any, dataset: Dataset, batch: Nest, check: BatchCheck
    ) -> Source:
        """Returns the data of a generator or a Sequence, with the first batch's shapes."""
        size, last = adapter.get_size(), None
        if size is not None:
            last = adapter._standardize_batch(adapter._keras_sequence[size - 1])
        first = adapter._standardize_batch(batch)
        check.check(first, 0)
        dataset, smaller = with_shapes(dataset, first, last, check)
        return Source(
            dataset,
            size,
            smaller,
            renewed=adapter.should_recreate_iterator(),
            epoch_ends=adapter.on_epoch_end,
            check=check,
        )

    def split(self, arrays: Nest, fraction: float) -> Nest:
        return data_adapter.train_validation_split(arrays, validation_split=fraction)

    def unpack(self, data: Nest) -> Nest:
        return data_adapter.unpack_x_y_sample_weight(data)

    def check(self, model: KerasModel, mode: str) -> None:
        """See kit.Kit.

        Raises:
            NotImplementedError: A subclass has no `call`.
            RuntimeError: The model overrides the function of its steps.
        """
        refuse_without_call(model, MODEL, STEPS[mode])
        check_not_overridden(model, MODEL, MAKERS[mode])
        if mode != "predict":
            model._assert_compile_was_called()

    def steps_per_execution(self, model: KerasModel) -> int:
        steps = model._steps_per_execution
        return check_execution(None if steps is None else steps.numpy())

    def set_steps_per_execution(self, model: KerasModel, steps: int) -> None:
        model._configure_steps_per_execution(steps)

    def build(self, model: KerasModel, zeros: Nest, mode: str) -> None:
        """See kit.Kit: traces a step, without running it."""
        legacy.take_plain_recurrences(model)
        trace_step(self, model, zeros, mode)

    def prepare_batch(self, model: KerasModel) -> None:
        """See kit.Kit: recurrent layers must be compilable loops."""
        legacy.take_plain_recurrences(model)
        model._jit_compile = True
        legacy.make_functions_of_one_step(model)

    def adopt(self, model: KerasModel) -> None:
        """See kit.Kit: the variables of an unbuilt optimizer are rate and count."""
        own = own_objects(model, _BaseOptimizer)
        compiled = getattr(model, "optimizer", None)
        for each in [*tf.nest.flatten(compiled), *own]:
            inner = getattr(each, "inner_optimizer", None)
            for optimizer in (each, inner):
                if isinstance(optimizer, _BaseOptimizer):
                    move_legacy_optimizer(optimizer)
        for metric in own_objects(model, keras.metrics.Metric):
            _move_metric_here(metric)

    def training(self, model: KerasModel, mode: str) -> Any:
        """See kit.Kit: fit trains the variables that were trainable at `compile`."""
        if mode == "fit":
            return RespectCompiledTrainableState(model)
        return contextlib.nullcontext()

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
        verbose = _get_verbosity(verbose, model.distribute_strategy)
        made = CallbackList(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            model=model,
            verbose=verbose,
            epochs=epochs,
            steps=steps,
        )
        # Disables its comparison of the times of callbacks and batches, which are unknown.
        made._check_timing = False
        return made

    def numbers(self, logs: Nest) -> Logs:
        return dict(tf_utils.sync_to_numpy_or_python_type(logs))

    def in_order(self, model: KerasModel, logs: Logs) -> Nest:
        return flatten_metrics_in_order(logs, model.metrics_names)

    def initial_epoch(self, model: KerasModel, initial_epoch: int) -> int:
        if model._training_state is None:
            return initial_epoch
        epoch, _ = model._maybe_load_initial_counters_from_ckpt(None, initial_epoch)
        return int(epoch)

    def finish(self, model: KerasModel) -> None:
        """See kit.Kit: with use_ema, the averages become the weights."""
        if isinstance(model.optimizer, keras.optimizers.Optimizer):
            model.optimizer.finalize_variable_values(model.trainable_variables)

    def ran(self, model: KerasModel, mode: str, first: int, steps: int) -> None:
        """See kit.Kit: callbacks such as TensorBoard read the counters."""
        counter = {
            "fit": model._train_counter,
            "evaluate": model._test_counter,
            "predict": model._predict_counter,
        }[mode]
        if mode == "fit" or first:
            counter.assign_add(steps)
        else:
            counter.assign(steps)

    def step(self, model: KerasModel, mode: str) -> NestFunction:
        return getattr(model, STEPS[mode])  # type: ignore[no-any-return]

    def forward(self, model: KerasModel, weights: list[Variable]) -> NestFunction:
        """See kit.Kit: Keras's train_step, up to the gradients."""
        optimizer = model.optimizer
        scales = hasattr(optimizer, "get_scaled_loss")

        def step(data: Nest) -> tuple[Nest, list[Tensor]]:
            x, y, sample_weight = self.unpack(data)
            with tf.GradientTape() as tape:
                y_pred = model(x, training=True)
                loss = model.compute_loss(x, y, y_pred, sample_weight)
                scaled = optimizer.get_scaled_loss(loss) if scales else loss
            gradients = tape.gradient(scaled, weights)
            if scales:
                gradients = optimizer.get_unscaled_gradients(gradients)
            return model.compute_metrics(x, y, y_pred, sample_weight), gradients

        return step

    def metric_variables(self, model: KerasModel) -> list[Variable]:
        return [each for metric in model.metrics for each in metric.variables]

    def check_step_not_overridden(self, model: KerasModel, function: str) -> None:
        """See kit.Kit: a functional model must not override `call`, either."""
        if getattr(type(model), function) is not getattr(MODEL, function):
            when = "for pipelined Keras models"
            if function == "train_step":
                when = "when using Keras within an IPUStrategy"
            refuse_override(model, function, when)
        for base, kind in (
            (keras.Sequential, "Sequential"),
            (Functional, "Functional"),
        ):
            if isinstance(model, base):
                if type(model).call is not base.call:
                    refuse_override(model, "call", f"for pipelined Keras {kind} models")
                break  # a Sequential is a Functional, too

    def warn_of_averages(self, model: KerasModel, graph: Graph) -> None:
        normal = keras.layers.BatchNormalization
        for call in graph.flat():
            if isinstance(call.operation, normal) and 0 < call.operation.momentum < 1:
                warn_of_average(model, call.operation)


def _watched(kind: type, check: BatchCheck) -> type:
    """Returns an adapter of generators or Sequences whose batches are checked."""

    def batches(adapter: Any, *arguments: object) -> Any:
        made = kind._handle_multiprocessing(adapter, *arguments)  # type: ignore[attr-defined]
        return check.watched(lambda: map(adapter._standardize_batch, made()))

    return type(kind.__name__, (kind,), {"_handle_multiprocessing": batches})


def note_stages() -> None:
    """Makes layers and their calls record the PipelineStage that they are made in."""
    scope.note(keras.layers.Layer)
    scope.note(Node)


def restore_options(restore: Callable[[KerasModel, Config | None], None]) -> None:
    """Makes Keras's loading of a model restore the options of the file."""
    stock = keras.Model.build_from_config

    def build_from_config(model: KerasModel, config: Config) -> object:
        result = stock(model, {"input_shape": None, **config})
        restore(model, config.get(KEY))
        return result

    replace(keras.Model, "build_from_config", build_from_config)


def move_optimizers() -> None:
    """Moves optimizers that were made outside of the scope at their first use in it."""
    move_at_first_use(
        _BaseOptimizer,
        ("build", "apply_gradients"),
        lambda optimizer: getattr(optimizer, "_built", False),
        move_legacy_optimizer,
    )


def _move_metric_here(metric: KerasLayer) -> None:
    """Moves the variables of a subclass's own metric to the IPU of this scope."""
    here = tf.distribute.get_strategy().extended._default_device
    moved: dict[int, Variable] = {}
    for old in metric.variables:
        if not old.device.endswith(here):
            name = old.name.partition(":")[0]
            moved[id(old)] = tf.Variable(old, trainable=False, name=name)
    for name, value in list(vars(metric).items()):
        if id(value) in moved:
            metric.__dict__[name] = moved[id(value)]
    for weights in (metric._trainable_weights, metric._non_trainable_weights):
        weights[:] = [moved.get(id(each), each) for each in weights]


KIT = LegacyKeras()
