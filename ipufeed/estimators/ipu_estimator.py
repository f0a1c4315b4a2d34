"""IPUEstimator: trains, evaluates and predicts with a model function, on an IPU.

    def model_fn(features, labels, mode, params):
        ...
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = IPUEstimator(model_fn, config=RunConfig(IPURunConfig(100)))
    estimator.train(input_fn, steps=1000)

Source: Graphcore's class of this name. A run of its program is a loop of
`iterations_per_loop` steps, each of which calls the model function's ops.
"""

from __future__ import annotations

from ipufeed.estimators import program
from ipufeed.estimators.estimator import IPUEstimatorBase
from ipufeed.estimators.functions import ModelFunction
from ipufeed.estimators.loop import Loop
from ipufeed.estimators.specs import IPUEstimatorSpec
from ipufeed.tf_types import Dataset, Variable

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]


class IPUEstimator(IPUEstimatorBase):
    """An estimator whose model function is a step of a loop on an IPU.

    The global step is a variable of the host: each run of the program adds
    `iterations_per_loop` to it, and the model function reads the value before the run.

    Args:
        model_fn: A function of `features`, and of those of `labels`, `mode`, `params` and
            `config` that it names. It returns an IPUEstimatorSpec or a
            tf.estimator.EstimatorSpec.
        model_dir: The folder of checkpoints and summaries. Default: None, that of
            `config`, else a temporary folder.
        config: A RunConfig of ipu_run_config. Default: None, RunConfig().
        params: A dict for the model function and the input functions. Default: None.
        warm_start_from: A checkpoint or its folder, from which the trainable variables
            get their values before the first training. Default: None.
        train_batch_size: The samples of a step of all replicas: each replica gets an equal
            part as `params["batch_size"]`. Default: None, no such entry.
        eval_batch_size: Likewise, to evaluate.
        predict_batch_size: Likewise, to predict.

    Raises:
        ValueError: `config` is of another type; the model function needs an unknown
            argument; a batch size is not a multiple of the replicas.
        TypeError: Another argument is of another type.

    Threads: one at a time.
    """

    _ARGUMENTS = ("features", "labels", "mode", "params", "config")

    def _build(
        self, model: ModelFunction, dataset: Dataset, global_step: Variable
    ) -> Loop:
        return program.build(model, dataset, global_step)
