"""What the model functions of estimators for IPUs return.

Source: Graphcore's classes of these names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ipufeed.checks import check_function
from ipufeed.errors import RefusedError
from ipufeed.estimators.checks import (
    EVAL,
    TRAIN,
    check_call,
    check_hooks,
    check_metric_ops,
    check_mode,
    check_spec,
)
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.optimizers.arguments import check_dtype
from ipufeed.parallel.pipeline import checks
from ipufeed.parallel.pipeline.arguments import Given
from ipufeed.parallel.pipeline.option_checks import with_older_count
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.tf_types import Nest, NestFunction, Operation, SessionHook, Tensor


class _Fields(NamedTuple):
    mode: str
    predictions: Nest
    loss: Tensor | None
    train_op: Tensor | Operation | None
    eval_metric_ops: dict[str, Any] | None
    eval_metrics: tuple[Callable[..., Any], Nest] | None
    host_call: tuple[Callable[..., Any], Nest] | None
    training_hooks: tuple[SessionHook, ...]
    evaluation_hooks: tuple[SessionHook, ...]
    prediction_hooks: tuple[SessionHook, ...]


class IPUEstimatorSpec(_Fields):
    """What the model function of an IPUEstimator returns for a mode.

    Args:
        mode: A name of tf.estimator.ModeKeys.
        predictions: A tensor, or a dict of them; needed to predict. Default: None.
        loss: A tensor of one element; needed to train and to evaluate. Default: None.
        train_op: The op, or tensor, that trains; needed to train. Default: None.
        eval_metric_ops: A dict from a name to a pair of a value and the op that updates
            it, which run on the IPU. Default: None.
        eval_metrics: In place of these, a pair of a function, which returns such a dict on
            the host, and its arguments: a list or dict of tensors of the IPU, which the
            function gets for each step. Default: None.
        host_call: A pair of a function, which returns an op or tensor that runs on the
            host after each step of training, and its arguments: a list or dict of tensors
            of the IPU. Only with an `iterations_per_loop` of 1. Default: None.
        training_hooks: Hooks for training. Default: None.
        evaluation_hooks: Hooks for evaluation. Default: None.
        prediction_hooks: Hooks for prediction. Default: None.

    Raises:
        ValueError: What the mode needs is missing, or has another shape; to evaluate,
            exactly one of `eval_metric_ops` and `eval_metrics` is needed.
        TypeError: A value is of another type.
    """

    def __new__(
        cls,
        mode: str,
        predictions: Nest = None,
        loss: Tensor | None = None,
        train_op: Tensor | Operation | None = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        eval_metrics: tuple[Callable[..., Any], Nest] | None = None,
        host_call: tuple[Callable[..., Any], Nest] | None = None,
        training_hooks: Sequence[SessionHook] | None = None,
        evaluation_hooks: Sequence[SessionHook] | None = None,
        prediction_hooks: Sequence[SessionHook] | None = None,
    ) -> IPUEstimatorSpec:
        """Checks the arguments; see the class."""
        loss = check_spec("IPUEstimatorSpec", mode, predictions, loss, train_op)
        given = [each is not None for each in (eval_metric_ops, eval_metrics)]
        if mode == EVAL and sum(given) != 1:
            raise ValueError(
                "To evaluate, IPUEstimatorSpec needs either eval_metric_ops or "
                f"eval_metrics, got {'both' if all(given) else 'neither'}."
            )
        return super().__new__(
            cls,
            mode=mode,
            predictions={} if predictions is None else predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=check_metric_ops(eval_metric_ops),
            eval_metrics=check_call("eval_metrics", eval_metrics),
            host_call=check_call("host_call", host_call),
            training_hooks=check_hooks("training_hooks", training_hooks),
            evaluation_hooks=check_hooks("evaluation_hooks", evaluation_hooks),
            prediction_hooks=check_hooks("prediction_hooks", prediction_hooks),
        )


# Arguments of a pipeline that the estimator itself sets, and why.
_OWN = {
    "accumulate_outfeed": "it is on in training, and off in evaluation and prediction",
    "accumulate_outfeed_dtype": "give `loss_accumulator_dtype`",
    "infeed_queue": "it reads the dataset of input_fn",
    "inputs": "the first stage gets the elements of the dataset of input_fn",
    "outfeed_loss": "training enqueues the loss",
    "outfeed_queue": "the estimator reads it",
    "repeat_count": "it is iterations_per_loop / gradient_accumulation_count",
}


# What else `pipeline` takes.
_OTHERS = inspect.signature(pipeline).parameters.keys() - _OWN.keys()


def _check_others(given: dict[str, Any]) -> None:
    """Raises an error for an argument that `pipeline` lacks, or the estimator sets."""
    for name in sorted(given.keys() & _OWN.keys()):
        error = RefusedError if name == "accumulate_outfeed" else ValueError
        raise error(f"IPUPipelineEstimatorSpec has no argument `{name}`: {_OWN[name]}.")
    unknown = sorted(given.keys() - _OTHERS)
    if unknown:
        raise TypeError(
            f"IPUPipelineEstimatorSpec has no argument {', '.join(unknown)}; the further "
            f"ones are those of pipelining_ops.pipeline: {', '.join(sorted(_OTHERS))}."
        )


class _PipelineFields(NamedTuple):
    mode: str
    computational_stages: Sequence[Any]
    gradient_accumulation_count: int
    eval_metrics_fn: Callable[..., Any] | None
    optimizer_function: NestFunction | None
    device_mapping: Sequence[Any] | None
    loss_accumulator_dtype: Any
    training_hooks: tuple[SessionHook, ...]
    evaluation_hooks: tuple[SessionHook, ...]
    prediction_hooks: tuple[SessionHook, ...]
    reduction_method: Reduction | str
    pipeline_op_kwargs: dict[str, Any]


class IPUPipelineEstimatorSpec(_PipelineFields):
    """What the model function of an IPUPipelineEstimator returns for a mode.

    Args:
        mode: A name of tf.estimator.ModeKeys.
        computational_stages: The stages of pipelining_ops.pipeline. The first gets the
            dataset's elements. The last returns the loss in training, the arguments of
            `eval_metrics_fn` in evaluation, a tensor or a dict of them in prediction.
        gradient_accumulation_count: Mini-batches of an execution of the pipeline; needed.
            `pipeline_depth` is its name in older releases.
        eval_metrics_fn: A function that runs on the host: it gets what the last stage
            returns and returns a dict from a name to a pair of a value and the op that
            updates it, with "loss" among the names, which may also be a tensor, whose mean
            is reported; needed to evaluate. Default: None.
        optimizer_function: That of the pipeline; needed to train. Default: None.
        device_mapping: The IPU of each stage. Default: None, one after the other.
        loss_accumulator_dtype: The dtype in which losses are summed. Default: None, that
            of the loss.
        training_hooks: Hooks for training. Default: None.
        evaluation_hooks: Hooks for evaluation. Default: None.
        prediction_hooks: Hooks for prediction. Default: None.
        reduction_method: The reduction of gradients. Default: SUM.
        **pipeline_op_kwargs: Further arguments of the pipeline.

    Raises:
        ValueError: What the mode needs is missing, or an argument of the pipeline is one
            that the estimator sets.
        TypeError: A value is of another type.
        RefusedError: `accumulate_outfeed` is given.
    """

    @with_older_count
    def __new__(
        cls,
        mode: str,
        computational_stages: Sequence[Any],
        gradient_accumulation_count: int | None = None,
        eval_metrics_fn: Callable[..., Any] | None = None,
        optimizer_function: NestFunction | None = None,
        device_mapping: Sequence[Any] | None = None,
        loss_accumulator_dtype: Any = None,
        training_hooks: Sequence[SessionHook] | None = None,
        evaluation_hooks: Sequence[SessionHook] | None = None,
        prediction_hooks: Sequence[SessionHook] | None = None,
        reduction_method: Reduction | str = Reduction.SUM,
        **pipeline_op_kwargs: Any,
    ) -> IPUPipelineEstimatorSpec:
        """Checks the arguments; see the class."""
        check_mode(mode)
        if gradient_accumulation_count is None:
            raise ValueError(
                "IPUPipelineEstimatorSpec needs gradient_accumulation_count."
            )
        for name, function, needed in (
            ("optimizer_function", optimizer_function, mode == TRAIN),
            ("eval_metrics_fn", eval_metrics_fn, mode == EVAL),
        ):
            if function is not None:
                check_function(name, function)
            elif needed:
                raise ValueError(
                    f"IPUPipelineEstimatorSpec needs {name} in the mode {mode!r}."
                )
        _check_others(pipeline_op_kwargs)
        checks.check_count(
            gradient_accumulation_count, "gradient_accumulation_count", least=1
        )
        check_dtype(loss_accumulator_dtype, "loss_accumulator_dtype", "tensor")
        Given(
            computational_stages=computational_stages,
            gradient_accumulation_count=gradient_accumulation_count,
            optimizer_function=optimizer_function if mode == TRAIN else None,
            device_mapping=device_mapping,
            outfeed_loss=mode == TRAIN,
            reduction_method=reduction_method,
            **pipeline_op_kwargs,
        ).checked()
        return super().__new__(
            cls,
            mode,
            computational_stages,
            gradient_accumulation_count,
            eval_metrics_fn,
            optimizer_function,
            device_mapping,
            loss_accumulator_dtype,
            check_hooks("training_hooks", training_hooks),
            check_hooks("evaluation_hooks", evaluation_hooks),
            check_hooks("prediction_hooks", prediction_hooks),
            reduction_method,
            pipeline_op_kwargs,
        )
