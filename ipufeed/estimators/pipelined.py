"""The loops of an IPUPipelineEstimator: its stages as a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int
from ipufeed.estimators.checks import EVAL, TRAIN
from ipufeed.estimators.functions import ModelFunction
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
from ipufeed.estimators.metrics import HostMetrics
from ipufeed.estimators.specs import IPUPipelineEstimatorSpec
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.tf_types import Dataset, Operation, Tensor, Variable


def build(model: ModelFunction, dataset: Dataset, global_step: Variable) -> Loop:
    """Builds the loop of the model's mode in the current graph.

    Raises:
        ValueError: The model function returns a spec of another mode, or changes the
            global step; `iterations_per_loop` is not a multiple of the mini-batches; or it
            is trained in replicas whose gradients it does not combine.
        TypeError: It does not return a spec.
    """
    settings = model.config.ipu_run_config
    iterations = settings.iterations_per_loop
    infeed, outfeed = infeed_of(dataset, settings), outfeed_of(settings)
    training = model.mode == TRAIN
    specs: list[IPUPipelineEstimatorSpec] = []

    def program() -> Operation:
        spec = model((IPUPipelineEstimatorSpec,))
        specs.append(spec)
        reduction = Reduction.parse(spec.reduction_method)
        made = pipeline(
            spec.computational_stages,
            gradient_accumulation_count=spec.gradient_accumulation_count,
            repeat_count=_repeats(spec, iterations),
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=spec.optimizer_function if training else None,
            device_mapping=spec.device_mapping,
            outfeed_loss=training,
            accumulate_outfeed=training,
            accumulate_outfeed_dtype=(
                spec.loss_accumulator_dtype if training else None
            ),
            reduction_method=reduction if training else Reduction.SUM,
            **spec.pipeline_op_kwargs,
        )
        refuse_increments(global_step)
        if training:
            check_replicas(settings.num_replicas)
        return made

    run = compiled(program, settings)
    spec = specs[-1]
    common: dict[str, Any] = {"spec": spec, "infeed": infeed, "outfeeds": [outfeed]}
    if training:
        sums = dequeued_after([run], outfeed)
        with tf.device(CPU):
            mean = tf.reduce_mean(tf.cast(sums, tf.float32))
            loss = mean / spec.gradient_accumulation_count
        return Loop(run=add_steps(global_step, iterations, [loss]), loss=loss, **common)
    with tf.device(CPU):
        results = outfeed.dequeue()
    common["whole"] = spec.gradient_accumulation_count
    if model.mode != EVAL:
        return Loop(run=run, results=results, **common)
    replicated = settings.num_replicas > 1
    arguments = results if isinstance(results, (list, tuple, dict)) else [results]
    specs_of = tf.nest.map_structure(
        lambda each: tf.TensorSpec(each.shape[2 if replicated else 1 :], each.dtype),
        arguments,
    )
    assert spec.eval_metrics_fn is not None  # checked by the spec
    function = _with_mean_loss(spec.eval_metrics_fn)
    metrics = HostMetrics(function, specs_of, replicated)
    return Loop(run=run, results={"metrics": arguments}, metrics=metrics, **common)


def _with_mean_loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of metrics: of a tensor "loss" the mean over the steps counts."""

    def metrics_of(*arguments: Tensor, **keywords: Tensor) -> Any:
        metrics = function(*arguments, **keywords)
        if isinstance(metrics, Mapping) and tf.is_tensor(metrics.get("loss")):
            metrics = {**metrics, "loss": tf.compat.v1.metrics.mean(metrics["loss"])}
        return metrics

    return metrics_of


def _repeats(spec: IPUPipelineEstimatorSpec, iterations: int) -> int:
    """Returns the executions of the pipeline in a run."""
    name = "gradient_accumulation_count"
    count = as_int(name, spec.gradient_accumulation_count)
    if count < 1 or iterations < count or iterations % count:
        raise ValueError(
            f"iterations_per_loop ({iterations}) must be a multiple of {name} ({count}): "
            "it counts mini-batches, and a run is whole executions of the pipeline."
        )
    return iterations // count
