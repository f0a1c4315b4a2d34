"""What the calls need of tf_keras, the Keras 2 that TF_USE_LEGACY_KERAS=1 makes tf.keras.

What stands below tf_keras.src is that Keras's own and is imported here, and nowhere else in
the package. tf_keras gets no features any more, so that these names stay.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf
import tf_keras as keras
from tf_keras.src.callbacks import CallbackList
from tf_keras.src.engine import data_adapter
from tf_keras.src.engine.node import Node
from tf_keras.src.engine.training import _get_verbosity, flatten_metrics_in_order
from tf_keras.src.engine.training_utils import RespectCompiledTrainableState
from tf_keras.src.mixed_precision import loss_scale_optimizer
from tf_keras.src.optimizers import utils as optimizer_utils
from tf_keras.src.optimizers.optimizer import _BaseOptimizer
from tf_keras.src.utils import tf_utils

from ipufeed.device.program.strategy import current_strategy
from ipufeed.keras.feed import Source, with_shapes
from ipufeed.keras.pipeline import scope
from ipufeed.keras.refusals import (
    check_not_overridden,
    refuse_legacy_pipeline,
    refuse_without_call,
    refuse_without_shapes,
)

MODEL = keras.Model

MAKERS = {
    "fit": "make_train_function",
    "evaluate": "make_test_function",
    "predict": "make_predict_function",
}
ARRAYS = (
    data_adapter.TensorLikeDataAdapter,
    data_adapter.ListsOfScalarsDataAdapter,
    data_adapter.CompositeTensorDataAdapter,
)


class LegacyKeras:
    """See kit.Kit."""

    name = f"tf_keras {keras.__version__}"
    # They concern generators, which are refused.
    ignored = frozenset({"max_queue_size", "workers", "use_multiprocessing"})

    def source(self, model: Any, arguments: dict[str, Any]) -> Source:
        """Arrays, tensors, tf.data, generators and Sequences.

        Generators and Sequences have the shapes of their first batch.

        Raises:
            ValueError: Data of another kind, which does not state its shapes.
        """
        x, y = arguments["x"], arguments.get("y")
        kind = data_adapter.select_data_adapter(x, y)
        generates = issubclass(kind, data_adapter.GeneratorDataAdapter)
        if not (generates or issubclass(kind, (*ARRAYS, data_adapter.DatasetAdapter))):
            refuse_without_shapes(x)
        batch = None
        if hasattr(x, "__next__"):
            batch = next(x)
            x = itertools.chain([batch], x)
        elif generates:
            batch = x[0]
        # A generator's batch would build the model at once; `build` does.
        own = {"model": None if generates else model}
        adapter = kind(
            x,
            y,
            batch_size=arguments.get("batch_size"),
            steps=arguments.get("steps"),
            epochs=1,
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
            return Source(
                dataset,
                size if size >= 0 else None,
                None,
                renewed=False,
                endless=size == tf.data.INFINITE_CARDINALITY,
            )
        if generates:
            return self._generated(adapter, dataset, batch)
        partial = adapter.has_partial_batch()
        batch = arguments.get("batch_size") or 32
        return Source(
            dataset,
            adapter.get_size(),
            batch if partial else None,
            renewed=True,
            epoch_ends=adapter.on_epoch_end,
        )

    def _generated(self, adapter: Any, dataset: Any, batch: Any) -> Source:
        """The batches of a generator or a Sequence, with the shapes of the first one."""
        size, last = adapter.get_size(), None
        if size is not None:
            last = adapter._standardize_batch(adapter._keras_sequence[size - 1])
        first = adapter._standardize_batch(batch)
        dataset, smaller = with_shapes(dataset, first, last)
        return Source(
            dataset,
            size,
            smaller,
            renewed=adapter.should_recreate_iterator(),
            epoch_ends=adapter.on_epoch_end,
        )

    def split(self, arrays: Any, fraction: float) -> Any:
        """See kit.Kit."""
        return data_adapter.train_validation_split(arrays, validation_split=fraction)

    def unpack(self, data: Any) -> Any:
        """See kit.Kit."""
        return data_adapter.unpack_x_y_sample_weight(data)

    def check(self, model: Any, mode: str) -> None:
        """See kit.Kit.

        Raises:
            NotImplementedError: A subclass has no `call`.
            RuntimeError: One that makes its own functions for the steps.
        """
        refuse_without_call(model, MODEL)
        check_not_overridden(model, MODEL, MAKERS[mode])
        if mode != "predict":
            model._assert_compile_was_called()

    def steps_per_execution(self, model: Any) -> int:
        """See kit.Kit."""
        steps = model._steps_per_execution
        return 1 if steps is None else int(steps)

    def build(self, model: Any, zeros: Any, mode: str) -> None:
        """See kit.Kit: a step is traced, as Keras does it, and not run."""
        built: set[str] = model.__dict__.setdefault("_ipufeed_built", set())
        if mode in built:
            return
        _take_plain_recurrences(model)
        step, strategy = self.step(model, mode), model.distribute_strategy

        def once(data: Any) -> None:
            strategy.run(lambda each: [step(each), None][1], args=(data,))

        with self.training(model, mode):
            tf.function(once, autograph=False).get_concrete_function(zeros)
        built.add(mode)

    def adopt(self, model: Any) -> None:
        """See kit.Kit: an optimizer has its learning rate and count from the beginning."""
        model.__dict__.pop("_ipufeed_built", None)
        for each in tf.nest.flatten(model.optimizer):
            inner = getattr(each, "inner_optimizer", None)
            for optimizer in (each, inner):
                if isinstance(optimizer, _BaseOptimizer):
                    _move_here(optimizer)

    def training(self, model: Any, mode: str) -> Any:
        """See kit.Kit: fit trains what was `trainable` when the model was compiled."""
        if mode == "fit":
            return RespectCompiledTrainableState(model)
        return contextlib.nullcontext()

    def callbacks(
        self, model: Any, callbacks: Any, verbose: Any, epochs: int, steps: int
    ) -> Any:
        """See kit.Kit."""
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
        # It would compare the time of callbacks to that of a batch, which it cannot see.
        made._check_timing = False
        return made

    def numbers(self, logs: Any) -> dict[str, Any]:
        """See kit.Kit."""
        return dict(tf_utils.sync_to_numpy_or_python_type(logs))

    def in_order(self, model: Any, logs: dict[str, Any]) -> Any:
        """See kit.Kit."""
        return flatten_metrics_in_order(logs, model.metrics_names)

    def initial_epoch(self, model: Any, initial_epoch: int) -> int:
        """See kit.Kit."""
        if model._training_state is None:
            return initial_epoch
        epoch, _ = model._maybe_load_initial_counters_from_ckpt(None, initial_epoch)
        return int(epoch)

    def finish(self, model: Any) -> None:
        """See kit.Kit: with use_ema, the averages become the weights."""
        if isinstance(model.optimizer, keras.optimizers.Optimizer):
            model.optimizer.finalize_variable_values(model.trainable_variables)

    def ran(self, model: Any, mode: str, first: int, steps: int) -> None:
        """See kit.Kit: the count that callbacks such as TensorBoard take."""
        counter = {
            "fit": model._train_counter,
            "evaluate": model._test_counter,
            "predict": model._predict_counter,
        }[mode]
        if mode == "fit" or first:
            counter.assign_add(steps)
        else:
            counter.assign(steps)

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
        optimizer = model.optimizer
        scales = hasattr(optimizer, "get_scaled_loss")

        def step(data: Any) -> Any:
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

    def metric_variables(self, model: Any) -> list[Any]:
        """See kit.Kit."""
        return [each for metric in model.metrics for each in metric.variables]

    def may_be_pipelined(self, model: Any, given: Any) -> bool:
        """See pipelining.py: the stages are of Keras 3.

        Raises:
            NotImplementedError: A layer of the model has a stage.
        """
        if given is not None or (scope.times_entered() and _has_stages(model)):
            refuse_legacy_pipeline()
        return False

    def kind(self, model: Any) -> NoReturn:
        """See pipelining.py.

        Raises:
            NotImplementedError: Always.
        """
        del model
        refuse_legacy_pipeline()

    def is_taken_apart(self, model: Any) -> NoReturn:
        """See `kind`."""
        self.kind(model)


def note_stages() -> None:
    """Lets layers and their calls know the PipelineStage that they are made in."""
    scope.note(keras.layers.Layer)
    scope.note(Node)


def restore_options(restore: Callable[[Any, dict[str, Any]], None]) -> None:
    """Lets what makes a model of a file set the options that the file has."""
    stock = keras.Model.build_from_config

    def build_from_config(model: Any, config: dict[str, Any]) -> Any:
        result = stock(model, {"input_shape": None, **config})
        restore(model, {"build_config": config})
        return result

    keras.Model.build_from_config = build_from_config


def allow_float16() -> None:
    """Lets float16 policies and loss scales be used in the scope of an IPUStrategy.

    tf_keras has a list of the strategies that it knows them to work with.
    """
    stock = loss_scale_optimizer.strategy_supports_loss_scaling

    def supports() -> bool:
        return current_strategy() is not None or stock()

    loss_scale_optimizer.strategy_supports_loss_scaling = supports


def sum_over_replicas() -> None:
    """Lets tf_keras's optimizers add the gradients of the replicas, as Keras 3's do.

    They name the variables as destinations, as TensorFlow 1 optimizers do, whose gradients
    a strategy leaves as they are.
    """
    stock = optimizer_utils.all_reduce_sum_gradients

    def sums(grads_and_vars: Any) -> Any:
        strategy = current_strategy()
        if strategy is None:
            return stock(grads_and_vars)
        reduce, add = strategy.extended._reduce_to, tf.distribute.ReduceOp.SUM
        return [
            (None if each is None else reduce(add, each, each, None), weight)
            for each, weight in grads_and_vars
        ]

    optimizer_utils.all_reduce_sum_gradients = sums


def _take_plain_recurrences(model: Any) -> None:
    """Lets LSTM and GRU be loops of the program, and not functions that it calls.

    XLA takes all that flows into such a function for what it must know to compile: the
    iterator, too, and each epoch would have a program of its own.
    """
    for layer in model._flatten_layers():
        if getattr(layer, "_could_use_gpu_kernel", False):
            layer._could_use_gpu_kernel = False


def _has_stages(model: Any) -> bool:
    for layer in model._flatten_layers():
        nodes = getattr(layer, "_inbound_nodes_value", None) or ()
        if any(scope.stage_of(each) is not None for each in (layer, *nodes)):
            return True
    return False


def _move_here(optimizer: Any) -> None:
    """Puts the variables of an optimizer that is not built onto the IPU of this scope."""
    strategy = tf.distribute.get_strategy()
    here = strategy.extended._default_device
    new: dict[int, Any] = {}
    for name in ("_iterations", "_learning_rate", "_current_learning_rate"):
        old = getattr(optimizer, name, None)
        if isinstance(old, tf.Variable) and not old.device.endswith(here):
            own = old.name.partition(":")[0]
            made = tf.Variable(old, trainable=False, name=own)
            new[id(old)] = made
            setattr(optimizer, name, made)
    if new:
        optimizer._variables = [
            new.get(id(each), each) for each in optimizer._variables
        ]
    optimizer._distribution_strategy = strategy


KIT = LegacyKeras()
