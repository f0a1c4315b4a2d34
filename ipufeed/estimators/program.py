"""The loops of an IPUEstimator: its model function as a step of a program."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.device.program import loops
from ipufeed.estimators.checks import PREDICT, TRAIN
from ipufeed.estimators.functions import ModelFunction, features_and_labels
from ipufeed.estimators.loop import (
    CPU,
    Loop,
    add_steps,
    check_replicas,
    compiled,
    dequeued_after,
    infeed_of,
    outfeed_of,
    refuse_increments,
)
from ipufeed.estimators.metrics import (
    DeviceMetrics,
    HostMetrics,
    Metrics,
    after_updates,
)
from ipufeed.estimators.specs import IPUEstimatorSpec
from ipufeed.estimators.tf_estimator import EstimatorSpec
from ipufeed.keras.changes.graphs import state_updates
from ipufeed.parallel.collectives.ops import cross_replica_mean
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import Dataset, Nest, Operation, Tensor, Variable


def build(model: ModelFunction, dataset: Dataset, global_step: Variable) -> Loop:
    """Builds the loop of the model's mode in the current graph.

    Raises:
        ValueError: The model function returns another spec, or changes the global step;
            or it is trained in replicas whose gradients it does not combine.
        TypeError: It does not return a spec.
    """
    builder = {TRAIN: _training, PREDICT: _prediction}.get(model.mode, _evaluation)
    return builder(model, dataset, global_step)


def _spec_of(model: ModelFunction, elements: tuple[Nest, ...], named: Nest) -> Any:
    """Calls the model function with an element."""
    features, labels = features_and_labels(elements, named)
    kinds = (IPUEstimatorSpec, EstimatorSpec)
    return model(kinds, features=features, labels=labels)


def _training(model: ModelFunction, dataset: Dataset, global_step: Variable) -> Loop:
    settings = model.config.ipu_run_config
    iterations = settings.iterations_per_loop
    infeed, outfeed = infeed_of(dataset, settings), outfeed_of(settings)
    specs: list[Any] = []

    def step(total: Tensor, *elements: Nest, **named: Nest) -> Nest:
        graph = tf.compat.v1.get_default_graph()
        first_op = len(graph.get_operations())
        spec = _spec_of(model, elements, named)
        specs.append(spec)
        updates = state_updates(graph.get_operations()[first_op:])
        refuse_increments(global_step)
        check_replicas(settings.num_replicas)
        trained = getattr(spec.train_op, "op", spec.train_op)
        with tf.control_dependencies([trained, *updates]):
            loss = tf.cast(spec.loss, tf.float32)
            if settings.num_replicas > 1:
                loss = cross_replica_mean(loss)
            results: list[Tensor | Operation] = [total + loss]
            if _host_call(spec, iterations) is not None:
                results.append(outfeed.enqueue(spec.host_call[1]))
        return results

    (total,) = compiled(
        lambda: loops.repeat(iterations, step, [tf.constant(0.0)], infeed), settings
    )
    with tf.device(CPU):
        loss = total / iterations
    spec = specs[-1]
    after, outfeeds = [loss], []
    if _host_call(spec, iterations) is not None:
        after.append(_on_host(spec.host_call[0], loss, outfeed, settings.num_replicas))
        outfeeds.append(outfeed)
    return Loop(
        spec=spec,
        infeed=infeed,
        outfeeds=outfeeds,
        run=add_steps(global_step, iterations, after),
        loss=loss,
    )


def _host_call(spec: Any, iterations: int) -> Any:
    call = getattr(spec, "host_call", None)
    if call is not None and iterations > 1:
        raise ValueError(
            "`host_call` is not allowed with an iterations_per_loop of "
            f"{iterations}: the host has a turn only after a loop. Set it to 1."
        )
    return call


def _on_host(
    function: Any, loss: Tensor, outfeed: IPUOutfeedQueue, replicas: int
) -> Operation:
    """Calls the function of `host_call` with what a step of the program enqueued."""
    stacked = dequeued_after([loss.op], outfeed)
    tensors = tf.nest.map_structure(lambda each: each[0], stacked)
    if replicas > 1:  # of the first replica
        tensors = tf.nest.map_structure(lambda each: each[0], tensors)
    with tf.device(CPU):
        made = function(**tensors) if isinstance(tensors, dict) else function(*tensors)
    # A variable's assign_add returns what is like the variable.
    made = getattr(made, "op", made)
    if not isinstance(made, tf.Operation):
        raise TypeError(
            "The function of `host_call` must return an operation or a tensor, got "
            f"{type(made).__name__}."
        )
    return made


def _evaluation(model: ModelFunction, dataset: Dataset, global_step: Variable) -> Loop:
    del global_step
    settings = model.config.ipu_run_config
    infeed, outfeed = infeed_of(dataset, settings), outfeed_of(settings)
    replicated = settings.num_replicas > 1
    found: list[tuple[Any, Nest]] = []

    def step(*elements: Nest, **named: Nest) -> Operation | None:
        first_op = len(tf.compat.v1.get_default_graph().get_operations())
        spec = _spec_of(model, elements, named)
        call = getattr(spec, "eval_metrics", None)
        if call is not None:
            metrics: Nest = tf.nest.map_structure(tf.convert_to_tensor, call[1])
        else:
            metrics = after_updates(spec.eval_metric_ops, first_op)
        specs = tf.nest.map_structure(
            lambda each: tf.TensorSpec(each.shape, each.dtype), metrics
        )
        found.append((spec, specs))
        return outfeed.enqueue({"loss": spec.loss, "metrics": metrics})

    program = compiled(
        lambda: loops.repeat(settings.iterations_per_loop, step, [], infeed), settings
    )
    spec, specs = found[-1]
    call = getattr(spec, "eval_metrics", None)
    metrics: Metrics = (
        DeviceMetrics(replicated)
        if call is None
        else HostMetrics(call[0], specs, replicated)
    )
    with tf.device(CPU):
        results = outfeed.dequeue()
    return Loop(
        spec=spec,
        infeed=infeed,
        outfeeds=[outfeed],
        run=program,
        results=results,
        metrics=metrics,
    )


def _prediction(model: ModelFunction, dataset: Dataset, global_step: Variable) -> Loop:
    del global_step
    settings = model.config.ipu_run_config
    infeed, outfeed = infeed_of(dataset, settings), outfeed_of(settings)
    specs: list[Any] = []

    def step(*elements: Nest, **named: Nest) -> Operation | None:
        spec = _spec_of(model, elements, named)
        specs.append(spec)
        return outfeed.enqueue(spec.predictions)

    program = compiled(
        lambda: loops.repeat(settings.iterations_per_loop, step, [], infeed), settings
    )
    with tf.device(CPU):
        results = outfeed.dequeue()
    return Loop(
        spec=specs[-1],
        infeed=infeed,
        outfeeds=[outfeed],
        run=program,
        results=results,
    )
