"""IPUPipelineEstimator: an estimator whose model function returns a pipeline's stages.

    def model_fn(mode, params):
        return IPUPipelineEstimatorSpec(
            mode, computational_stages=[stage1, stage2], gradient_accumulation_count=8,
            optimizer_function=optimizer_function, eval_metrics_fn=metrics_fn)

Source: Graphcore's class of this name.
"""

from __future__ import annotations

from ipufeed.estimators import pipelined
from ipufeed.estimators.estimator import IPUEstimatorBase
from ipufeed.estimators.functions import ModelFunction
from ipufeed.estimators.loop import Loop
from ipufeed.estimators.specs import IPUPipelineEstimatorSpec
from ipufeed.tf_types import Dataset, Variable

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]


class IPUPipelineEstimator(IPUEstimatorBase):
    """An estimator whose program is a pipeline.

    A run is `iterations_per_loop` mini-batches: `iterations_per_loop` /
    `gradient_accumulation_count` executions of the pipeline.

    Args:
        model_fn: A function of those of `mode`, `params` and `config` that it names. It
            returns an IPUPipelineEstimatorSpec.
        model_dir: See IPUEstimator; so are the others.
        config: A RunConfig of ipu_run_config.
        params: A dict for the model function and the input functions.
        warm_start_from: A checkpoint or its folder.
        train_batch_size: The samples of a step of all replicas.
        eval_batch_size: Likewise, to evaluate.
        predict_batch_size: Likewise, to predict.

    Raises:
        ValueError, TypeError: As those of IPUEstimator.

    Threads: one at a time.
    """

    _ARGUMENTS = ("mode", "params", "config")

    def _build(
        self, model: ModelFunction, dataset: Dataset, global_step: Variable
    ) -> Loop:
        return pipelined.build(model, dataset, global_step)
