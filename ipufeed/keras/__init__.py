"""Keras models on the simulated IPU: fit, evaluate and predict as compiled programs.

    dataset --> infeed --> [ train_step x steps_per_execution ] --> outfeed --> callbacks
                           one compiled program for each execution

A model that is made in the scope of an IPUStrategy has these by itself. `install` changes
Keras once; `calls` has the three methods, `feed` the data, `programs` what is compiled,
`executions` what runs it and reads its results, `options` the `set_...` methods. All of
them work for any Keras: what differs between Keras 3 and tf_keras stands in a kit
(`keras3`, `legacy_keras`). `pipeline` has the stages of layers, `layers` those of the
original's `ipu.keras.layers`. Importing this package imports no Keras. Uses
ipufeed.device, ipufeed.parallel
and ipufeed.queues.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "FunctionalLayerPipelineStageAssignment": "pipeline.assignment",
    "FunctionalNestedModelPipelineStageAssignment": "pipeline.assignment",
    "InputBound": "input_bound",
    "ModelLayerPipelineStageAssignment": "pipeline.assignment",
    "NestedModelPipelineStageAssignment": "pipeline.assignment",
    "PipelineStage": "pipeline.scope",
    "ReplicatedMetricReductionMethod": "metric_reduction",
    "SequentialLayerPipelineStageAssignment": "pipeline.assignment",
    "SequentialNestedModelPipelineStageAssignment": "pipeline.assignment",
}
# Names of older releases, and what to use.
_REFUSED = {
    "Model": "keras.Model in the scope of an IPUStrategy, and its `set_...` methods",
    "PipelineModel": "keras.Model with PipelineStage, and `set_pipelining_options`",
    "PipelineSequential": (
        "keras.Sequential with `set_pipeline_stage_assignment`, and "
        "`set_pipelining_options`"
    ),
    "Sequential": "keras.Sequential in the scope of an IPUStrategy",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in ("extensions", "layers", "optimizers"):
        return importlib.import_module(f"ipufeed.keras.{name}")
    if name in _REFUSED:
        raise AttributeError(
            f"`{name}` is not supported on a simulated IPU. Use {_REFUSED[name]}."
        )
    if name not in _NAMES:
        raise AttributeError(f"module 'ipufeed.keras' has no attribute {name!r}")
    module = importlib.import_module(f"ipufeed.keras.{_NAMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
