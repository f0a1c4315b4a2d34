"""Keras models on the simulated IPU: fit, evaluate and predict as compiled programs.

    dataset --> infeed --> [ train_step x steps_per_execution ] --> outfeed --> callbacks
                           one compiled program for each execution

Models that are made in the scope of an IPUStrategy use these methods. `install` patches
Keras once; `calls` has the three methods, `feed` the data, `programs` the compiled
programs, `executions` runs them and reads results, `replica_metrics` reduces those of
replicas, `model_options` has the `set_...` methods, `state` what they set and `saving` its
files; `refusals` has errors on unsupported models. These work for any Keras: the
differences between Keras 3 and tf_keras are in kits (`kit`, `keras3`, `legacy_keras`).
Of pipelined models `pipelining` has the methods, `pipeline_state` what they set, and
`pipelined_program` the compiled program.

`pipeline` has the stages of layers; `layers`, `losses` and `optimizers` those of
Graphcore's `ipu.keras`; `older` the models of SDK 2.1; `changes` the other patches of
a Keras; `checks` and `data` what calls refuse and convert; `exporting` writes a model as
a SavedModel. Importing this package imports no Keras. Uses ipufeed.applications,
ipufeed.device, ipufeed.parallel and ipufeed.queues.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "FunctionalLayerPipelineStageAssignment": "pipeline.assignment",
    "FunctionalNestedModelPipelineStageAssignment": "pipeline.assignment",
    "InputBound": "input_bound",
    "Model": "older.models",
    "ModelLayerPipelineStageAssignment": "pipeline.assignment",
    "NestedModelPipelineStageAssignment": "pipeline.assignment",
    "PipelineModel": "older.models",
    "PipelineSequential": "older.models",
    "PipelineStage": "pipeline.scope",
    "ReplicatedMetricReductionMethod": "replica_metrics",
    "Sequential": "older.models",
    "SequentialLayerPipelineStageAssignment": "pipeline.assignment",
    "SequentialNestedModelPipelineStageAssignment": "pipeline.assignment",
    "SequentialPipelineModel": "older.models",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in ("extensions", "layers", "losses", "optimizers"):
        return importlib.import_module(f"ipufeed.keras.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'ipufeed.keras' has no attribute {name!r}")
    module = importlib.import_module(f"ipufeed.keras.{_NAMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
