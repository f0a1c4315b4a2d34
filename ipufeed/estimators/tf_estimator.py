"""tf.estimator: what programs with an IPUEstimator use of it; TensorFlow 2.21 has none.

    tf.estimator.ModeKeys.TRAIN                      the mode of a model function
    tf.estimator.EstimatorSpec(mode, loss=..., train_op=...)
    tf.estimator.LoggingTensorHook, ...              TensorFlow's hooks of sessions

Source: TensorFlow's module of this name, up to 2.15; the checks and defaults are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ipufeed.estimators.checks import check_hooks, check_metric_ops, check_spec
from ipufeed.ops.refused import Refused
from ipufeed.tf_types import Nest, Operation, SessionHook, Tensor

HOOKS = (
    *("CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook"),
    *("GlobalStepWaiterHook", "LoggingTensorHook", "NanLossDuringTrainingError"),
    *("NanTensorHook", "ProfilerHook", "SecondOrStepTimer", "SessionRunArgs"),
    *("SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook"),
    *("StopAtStepHook", "SummarySaverHook"),
)
# Names of tf.estimator that programs could have, without those of canned models.
REFUSED = {
    "Estimator": "use ipu_estimator.IPUEstimator, whose arguments it has",
    "EvalSpec": "call estimator.evaluate(input_fn, steps)",
    "RunConfig": "use ipu_run_config.RunConfig",
    "TrainSpec": "call estimator.train(input_fn, max_steps=...)",
    "WarmStartSettings": "give `warm_start_from` the path of a checkpoint",
    "export": "use serving.export_single_step",
    "train_and_evaluate": "call estimator.train and estimator.evaluate",
}
_GONE = "TensorFlow 2.21 has no estimators"


class ModeKeys:
    """The modes of a model function.

    Attributes:
        TRAIN: Training, "train".
        EVAL: Evaluation, "eval".
        PREDICT: Prediction, "infer".
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Nest
    loss: Tensor | None
    train_op: Tensor | Operation | None
    eval_metric_ops: dict[str, Any]
    export_outputs: Any
    training_chief_hooks: tuple[SessionHook, ...]
    training_hooks: tuple[SessionHook, ...]
    scaffold: Any
    evaluation_hooks: tuple[SessionHook, ...]
    prediction_hooks: tuple[SessionHook, ...]


class EstimatorSpec(_Fields):
    """What a model function returns for a mode.

    Args:
        mode: A name of ModeKeys.
        predictions: A tensor, or a dict of them; needed to predict. Default: None.
        loss: A tensor of one element; needed to train and to evaluate. Default: None.
        train_op: The op, or tensor, that trains; needed to train. Default: None.
        eval_metric_ops: A dict from a name to a metric: a pair of a value and the op that
            updates it. Default: None, no metrics.
        export_outputs: No effect: nothing is exported. Default: None.
        training_chief_hooks: Hooks for training. Default: None.
        training_hooks: Likewise. Default: None.
        scaffold: A tf.compat.v1.train.Scaffold of the session. Default: None.
        evaluation_hooks: Hooks for evaluation. Default: None.
        prediction_hooks: Hooks for prediction. Default: None.

    Raises:
        ValueError: What the mode needs is missing, or has another shape.
        TypeError: A value is of another type.
    """

    def __new__(
        cls,
        mode: str,
        predictions: Nest = None,
        loss: Tensor | None = None,
        train_op: Tensor | Operation | None = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Any = None,
        training_chief_hooks: Sequence[SessionHook] | None = None,
        training_hooks: Sequence[SessionHook] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Sequence[SessionHook] | None = None,
        prediction_hooks: Sequence[SessionHook] | None = None,
    ) -> EstimatorSpec:
        """Checks the arguments; see the class."""
        loss = check_spec("EstimatorSpec", mode, predictions, loss, train_op)
        if not isinstance(scaffold, (tf.compat.v1.train.Scaffold, type(None))):
            raise TypeError(
                "`scaffold` must be a tf.compat.v1.train.Scaffold or None, got "
                f"{type(scaffold).__name__}."
            )
        return super().__new__(
            cls,
            mode=mode,
            predictions={} if predictions is None else predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=check_metric_ops(eval_metric_ops) or {},
            export_outputs=export_outputs,
            training_chief_hooks=check_hooks(
                "training_chief_hooks", training_chief_hooks
            ),
            training_hooks=check_hooks("training_hooks", training_hooks),
            scaffold=scaffold,
            evaluation_hooks=check_hooks("evaluation_hooks", evaluation_hooks),
            prediction_hooks=check_hooks("prediction_hooks", prediction_hooks),
        )


def __getattr__(name: str) -> Callable[..., Any]:
    if name in HOOKS:
        value: Callable[..., Any] = getattr(tf.compat.v1.train, name)
        return value
    if name in REFUSED:
        return Refused(f"tf.estimator.{name}", f"{_GONE}; {REFUSED[name]}")
    raise AttributeError(
        f"tf.estimator has no {name!r}: {_GONE}, and those for "
        "IPUs need only ModeKeys, EstimatorSpec and the hooks. Use "
        "ipu_estimator.IPUEstimator with a model function."
    )
