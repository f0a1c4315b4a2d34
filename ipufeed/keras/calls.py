"""Implements fit, evaluate and predict: epochs, callbacks and validation."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.device.log import LOGGER
from ipufeed.keras.checks.arguments import check_callbacks, check_data, check_training
from ipufeed.keras.checks.arrays import check_arrays, check_end
from ipufeed.keras.checks.host_operations import check_texts
from ipufeed.keras.data.shapes import zeros_of
from ipufeed.keras.data.steps import check_accumulation
from ipufeed.keras.executions import Epoch, reads_while_running, run_epoch
from ipufeed.keras.feed import Feed, feedable
from ipufeed.keras.kit import CallbackList, Kit
from ipufeed.keras.pipeline.calls import Logs
from ipufeed.keras.pipeline_state import NEEDS_COUNT
from ipufeed.keras.pipelined_program import check_depth
from ipufeed.keras.pipelining import resolve
from ipufeed.keras.refusals import refuse_to_accumulate
from ipufeed.keras.replica_metrics import ReplicatedMetricReductionMethod
from ipufeed.keras.state import ModelState
from ipufeed.tf_types import KerasModel, Nest, Tensor

EAGERLY = (
    "Keras models cannot run eagerly when using `IPUStrategy`. Set `run_eagerly=False` "
    "when calling `compile`, and do not call `tf.config.run_functions_eagerly(True)`."
)


def fit(
    model: KerasModel,
    state: ModelState,
    x: Nest = None,
    y: Nest = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: str | int = "auto",
    callbacks: object = None,
    validation_split: float = 0.0,
    validation_data: Nest = None,
    shuffle: bool | str = True,
    class_weight: dict[int, float] | None = None,
    sample_weight: Nest = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: int | list[int] = 1,
    **others: object,
) -> object:
    """Trains: see `fit` of the model's Keras for the arguments.

    Returns:
        Its History.
    """
    kit = state.kit
    _refuse("fit", kit, others)
    check_training(
        *(kit.fewest_epochs, epochs, initial_epoch),
        *(validation_split, validation_freq, class_weight),
    )
    check_callbacks(callbacks)
    check_data(
        x,
        {"batch_size": batch_size, "validation_batch_size": validation_batch_size},
        {"steps_per_epoch": steps_per_epoch, "validation_steps": validation_steps},
    )
    check_arrays(
        model,
        {
            **{"x": x, "y": y, "sample_weight": sample_weight},
            "validation_data": validation_data,
        },
    )
    kit.check(model, "fit")
    refuse_to_accumulate(model, state.accumulation or 1, kit.trainer)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = kit.split(
            (x, y, sample_weight), validation_split
        )
    feed = _prepare(
        model,
        state,
        "fit",
        steps_per_epoch,
        max(1, epochs - initial_epoch),
        {
            **{"x": x, "y": y, "sample_weight": sample_weight},
            **{"batch_size": batch_size, "shuffle": shuffle},
            "class_weight": class_weight,
        },
        argument="steps_per_epoch",
    )
    if state.pipeline.is_on and state.pipeline.accumulation is None:
        raise ValueError(NEEDS_COUNT)
    check_accumulation(feed.steps.execution, state.updates_from(), state.pipeline.is_on)
    check_depth(model, state, "fit", feed.steps.execution)
    _log_sizes(model, state, feed)
    validation: dict[str, Any] | None = None
    if validation_data is not None:
        val_x, val_y, val_weight = kit.unpack(validation_data)
        check_end(val_x, validation_steps, "validation_steps")
        validation = {
            **{"x": val_x, "y": val_y, "sample_weight": val_weight},
            **{"batch_size": validation_batch_size or batch_size},
            "steps": validation_steps,
        }
    called = kit.callbacks(model, callbacks, verbose, epochs, feed.steps.epoch)
    model.stop_training, logs = False, None
    state.feed = feed
    feed.begin_call("fit")
    try:
        called.on_train_begin()
        for epoch in range(kit.initial_epoch(model, initial_epoch), epochs):
            model.reset_metrics()
            called.on_epoch_begin(epoch)
            results = run_epoch(
                Epoch(
                    *(model, state, "fit", feed),
                    *(called.on_train_batch_begin, called.on_train_batch_end),
                )
            )
            # Nested, as Keras has them: its callbacks flatten them, in order of the names.
            logs = dict(results[-1])
            if validation is not None and model._should_eval(epoch, validation_freq):
                logs.update(_validate(model, state, validation, called))
            called.on_epoch_end(epoch, logs)
            if model.stop_training:
                break
    finally:
        feed.close()
        state.validation = state.feed = None
    if epochs > 0:
        kit.finish(model)
    called.on_train_end(logs)
    return model.history


def _validate(
    model: KerasModel,
    state: ModelState,
    arguments: dict[str, Any],
    callbacks: CallbackList,
) -> Logs:
    """Evaluates the validation data, with the feed of the previous epoch."""
    if state.validation is None:
        of_data = {name: arguments[name] for name in arguments if name != "steps"}
        state.validation = _prepare(
            *(model, state, "evaluate", arguments["steps"], 1, of_data),
            argument="validation_steps",
        )
    values = model.evaluate(
        **arguments, callbacks=callbacks, return_dict=True, **{_CACHED: True}
    )
    return {f"val_{name}": value for name, value in values.items()}


# The argument of Keras's fit to evaluate, which a subclass passes on.
_CACHED = "_use_cached_eval_dataset"


def evaluate(
    model: KerasModel,
    state: ModelState,
    x: Nest = None,
    y: Nest = None,
    batch_size: int | None = None,
    verbose: str | int = "auto",
    sample_weight: Nest = None,
    steps: int | None = None,
    callbacks: object = None,
    return_dict: bool = False,
    **others: object,
) -> Nest:
    """Evaluates: see `evaluate` of the model's Keras for the arguments and results."""
    kit = state.kit
    cached = others.pop(_CACHED, False)
    _refuse("evaluate", kit, others)
    check_callbacks(callbacks)
    check_data(x, {"batch_size": batch_size}, {"steps": steps})
    kit.check(model, "evaluate")
    feed = state.validation if cached else None
    if feed is None:
        check_arrays(model, {"x": x, "y": y, "sample_weight": sample_weight})
        feed = _prepare(
            model,
            state,
            "evaluate",
            steps,
            1,
            {
                **{"x": x, "y": y, "sample_weight": sample_weight},
                "batch_size": batch_size,
            },
        )
    check_depth(model, state, "evaluate", feed.steps.execution)
    called = kit.callbacks(model, callbacks, verbose, 1, feed.steps.epoch)
    model.stop_evaluating = False
    feed.begin_call("evaluate")
    called.on_test_begin()
    model.reset_metrics()
    try:
        results = run_epoch(
            Epoch(
                *(model, state, "evaluate", feed),
                *(called.on_test_batch_begin, called.on_test_batch_end),
            )
        )
    finally:
        feed.close()
    logs = kit.numbers(results[-1])
    called.on_test_end(logs)
    return logs if return_dict else kit.in_order(model, logs)


def predict(
    model: KerasModel,
    state: ModelState,
    x: Nest,
    batch_size: int | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: object = None,
    **others: object,
) -> Nest:
    """Predicts: see `predict` of the model's Keras for the arguments.

    Returns:
        The concatenated outputs of all steps, as NumPy arrays.
    """
    kit = state.kit
    _refuse("predict", kit, others)
    check_callbacks(callbacks)
    check_data(x, {"batch_size": batch_size}, {"steps": steps})
    check_arrays(model, {"x": x})
    kit.check(model, "predict")
    feed = _prepare(
        model, state, "predict", steps, 1, {"x": x, "batch_size": batch_size}
    )
    check_depth(model, state, "predict", feed.steps.execution)
    called = kit.callbacks(model, callbacks, verbose, 1, feed.steps.epoch)
    model.stop_predicting = False
    feed.begin_call("predict")
    called.on_predict_begin()
    of_execution = not reads_while_running(state, "predict")

    def end(step: int, rows: Nest) -> None:
        outputs = _joined(state, rows, of_execution)
        called.on_predict_batch_end(step, {"outputs": outputs})

    try:
        results = run_epoch(
            Epoch(model, state, "predict", feed, called.on_predict_batch_begin, end)
        )
    finally:
        feed.close()
    called.on_predict_end()
    parts = [_joined(state, rows, has_steps=True) for rows in results]
    return tf.nest.map_structure(lambda *each: tf.concat(each, 0).numpy(), *parts)


def _joined(state: ModelState, rows: Nest, has_steps: bool) -> Nest:
    """Joins outputs [(steps,) (replicas,) batch, ...] to one batch."""
    several = state.replicas() > 1
    kinds = ReplicatedMetricReductionMethod
    reduced = several and state.metric_reduction in (kinds.SUM, kinds.MEAN)
    leading = has_steps + (several and not reduced)

    def flatten(x: Tensor) -> Tensor:
        if reduced:  # the same on each replica
            x = x[:, -1] if has_steps else x[-1]
        return tf.reshape(x, [-1, *x.shape[leading + 1 :]]) if leading else x

    return tf.nest.map_structure(flatten, rows)


def _refuse(call: str, kit: Kit, others: dict[str, object]) -> None:
    """Raises TypeError for unknown arguments."""
    unknown = sorted(set(others) - kit.ignored)
    if unknown:
        raise TypeError(f"{call}() got an unexpected keyword argument '{unknown[0]}'")


def _prepare(
    model: KerasModel,
    state: ModelState,
    mode: str,
    steps: int | None,
    epochs: int,
    arguments: dict[str, Any],
    argument: str = "steps",
) -> Feed:
    """Checks the data, and creates all variables."""
    if model.run_eagerly or tf.config.functions_run_eagerly():
        raise RuntimeError(EAGERLY)
    check_end(arguments["x"], steps, argument)
    source = state.kit.source(model, {**arguments, "steps": steps, "epochs": epochs})
    per_execution = state.kit.steps_per_execution(model)
    check_texts(model, source.dataset.element_spec)
    dataset = feedable(source)
    example = zeros_of(dataset)
    state.kit.build(model, example, mode)
    resolve(model, state, example)
    return Feed(state, source, dataset, steps, per_execution, epochs, argument)


def _log_sizes(model: KerasModel, state: ModelState, feed: Feed) -> None:
    """Logs the sizes of this training."""
    execution, count = feed.steps.execution, state.updates_from() or 1
    if execution == 1:
        LOGGER.info(
            "The model `%s` has been configured with only 1 steps per execution. Consider "
            "increasing the value of `steps_per_execution`, which `compile` takes: each "
            "execution costs the host's time.",
            model.name,
        )
    if count > 1 or state.replicas() > 1:
        LOGGER.info(
            "The model `%s` makes %d weight updates per execution, each from %d batches "
            "(%d mini-batches on %d replicas).",
            *(model.name, execution // count, count * state.replicas()),
            *(count, state.replicas()),
        )
