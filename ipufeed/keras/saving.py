"""Saves the options of an IPUStrategy's models in the files of `model.save`.

They are in the build configuration, in which Keras ignores unknown keys, and in formats
other than .keras in the metadata (changes.files). A file that was saved in the scope of an
IPUStrategy loads in any process, and one that was not loads in the scope. Weights
and checkpoints do not contain them.
"""

from __future__ import annotations

import json
from typing import Any

from ipufeed.device.log import LOGGER
from ipufeed.keras.pipelining import saved_stages
from ipufeed.keras.replica_metrics import ReplicatedMetricReductionMethod
from ipufeed.keras.state import ModelState
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
    check_dtype,
    name_of,
)
from ipufeed.tf_types import KerasModel


def options_of(model: KerasModel, state: ModelState) -> dict[str, Any]:
    """Returns the options by the names of Graphcore's configuration."""
    own, dtype = state.pipeline, name_of(state.accumulation_dtype)
    found = {
        "gradient_accumulation_steps_per_replica": state.accumulation,
        "gradient_accumulation_reduction_method": state.reduction.name,
        "gradient_accumulation_optimizer_kwargs": {"dtype": dtype},
        "pipelining_gradient_accumulation_steps_per_replica": own.accumulation,
        "pipelining_gradient_accumulation_reduction_method": own.reduction.name,
        "pipelining_device_mapping": own.device_mapping,
        "pipelining_accumulate_outfeed": own.accumulate_outfeed,
        "replicated_metric_reduction_method": state.metric_reduction.name,
        "asynchronous_callbacks": state.asynchronous,
        "infeed_kwargs": _plain(model, "infeed", state.infeed),
        "outfeed_kwargs": _plain(model, "outfeed", state.outfeed),
        "pipeline_stage_assignment": saved_stages(model, state),
    }
    left = [*own.options] if own.options else []
    left += ["dtype"] if dtype is None and state.accumulation_dtype is not None else []
    left = [name for name in left if name != "gradient_accumulation_for_captured_grads"]
    if left:
        LOGGER.info(
            "The options %s of the model `%s` are not saved: set them again after loading.",
            *(", ".join(left), model.name),
        )
    return found


def _plain(model: KerasModel, queue: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a queue that JSON can represent."""
    kept = {}
    for name, value in kwargs.items():
        try:
            json.dumps(value)
        except TypeError:
            LOGGER.info(
                "The %s option %s=%r of the model `%s` is not saved.",
                *(queue, name, value, model.name),
            )
        else:
            kept[name] = value
    return kept


def restore(state: ModelState, options: dict[str, Any]) -> None:
    """Sets the options of `options_of`; ignores keys of a later release."""
    own, method = state.pipeline, GradientAccumulationReductionMethod
    state.accumulation = options.get("gradient_accumulation_steps_per_replica")
    state.reduction = method.parse(
        options.get("gradient_accumulation_reduction_method", "SUM")
    )
    kwargs = options.get("gradient_accumulation_optimizer_kwargs") or {}
    state.accumulation_dtype = check_dtype(kwargs.get("dtype"), "dtype")
    own.accumulation = options.get("pipelining_gradient_accumulation_steps_per_replica")
    own.reduction = method.parse(
        options.get("pipelining_gradient_accumulation_reduction_method", "SUM")
    )
    mapping = options.get("pipelining_device_mapping")
    own.device_mapping = None if mapping is None else list(mapping)
    own.accumulate_outfeed = bool(options.get("pipelining_accumulate_outfeed"))
    state.metric_reduction = ReplicatedMetricReductionMethod.parse(
        options.get("replicated_metric_reduction_method", "NONE")
    )
    state.asynchronous = bool(options.get("asynchronous_callbacks"))
    state.infeed = dict(options.get("infeed_kwargs") or {})
    state.outfeed = dict(options.get("outfeed_kwargs") or {})
    own.saved = options.get("pipeline_stage_assignment")
    state.forget_programs()
