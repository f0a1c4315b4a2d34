"""Checks of a pipeline's options; warnings on those without an effect here.

Stages, counts and schedule are checked by checks.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ipufeed.checks import is_flag
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
)
from ipufeed.parallel.pipeline.options import PipelineStageOptions
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue

Function = TypeVar("Function", bound=Callable[..., Any])

_COMPILER = "XLA compiles its programs for the CPU, without Poplar's libraries"
_MEMORY = "its memory is the host's, and the numbers are the same"
_INFERENCE = "without an `optimizer_function` the pipeline has no gradients"
# The arguments of `pipeline` without an effect here, and why.
NO_EFFECT = {
    "recomputation_mode": (
        "what `allow_recompute` computes again is computed where the backward stage needs "
        "it, in the order that XLA finds, and the numbers are the same"
    ),
    "forward_propagation_stages_poplar_options": _COMPILER,
    "backward_propagation_stages_poplar_options": _COMPILER,
    "weight_update_poplar_options": _COMPILER,
    "replicated_optimizer_state_sharding": _MEMORY,
    "offload_activations": _MEMORY,
    "offload_gradient_accumulation_buffers": _MEMORY,
    "replicated_weight_sharding": _MEMORY,
    "offload_weights": _MEMORY,
    "accumulate_outfeed_dtype": "without `accumulate_outfeed` nothing is summed",
}


def warn_of_no_effect(**given: bool) -> None:
    """Warns once of each given argument of `pipeline` that has no effect."""
    for name, is_given in given.items():
        if is_given:
            no_effect(f"pipeline({name}=)", NO_EFFECT[name])


def warn_of_no_effect_on_inference(**given: bool) -> None:
    """Warns once of each given argument on gradients, in inference."""
    for name, is_given in given.items():
        if is_given:
            no_effect(f"pipeline({name}=)", _INFERENCE)


def has_options(options: object) -> bool:
    """Whether a PipelineStageOptions, or one of several, has any option."""
    several = options if isinstance(options, (list, tuple)) else [options]
    return any(each is not None and any(vars(each).values()) for each in several)


def check_queues(infeed_queue: object, outfeed_queue: object) -> None:
    """Raises TypeError unless they are queues, or None."""
    if infeed_queue is not None and not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(
            "infeed_queue is not an instance of ipu_infeed_queue.IPUInfeedQueue, got "
            f"{type(infeed_queue).__name__}."
        )
    if outfeed_queue is not None and not isinstance(outfeed_queue, IPUOutfeedQueue):
        raise TypeError(
            "outfeed_queue is not an instance of ipu_outfeed_queue.IPUOutfeedQueue, got "
            f"{type(outfeed_queue).__name__}."
        )


def check_outfeed_options(
    outfeed_queue: IPUOutfeedQueue | None,
    training: bool,
    outfeed_loss: bool,
    accumulate_outfeed: bool,
    outfeed_mask: Sequence[bool] | None,
) -> None:
    """Checks the combination of the outfeed's options.

    Raises:
        ValueError: Options exclude each other, or need another one.
        TypeError: The mask is not a list of bools.
    """
    if outfeed_mask is not None and not training:
        raise ValueError(
            "An optimizer_function must be provided when outfeed_mask is set."
        )
    if outfeed_loss and not training:
        raise ValueError(
            "An optimizer_function must be provided when outfeed_loss is True."
        )
    if outfeed_loss and outfeed_mask is not None:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
    _check_mask(outfeed_mask)
    if not accumulate_outfeed:
        return
    if outfeed_queue is None:
        raise ValueError(
            "An outfeed_queue must be provided when accumulate_outfeed is True."
        )
    if outfeed_queue._outfeed_mode is not IPUOutfeedMode.ALL:
        raise ValueError("To accumulate the outfeed, it must be in IPUOutfeedMode ALL.")


def _check_mask(mask: object) -> None:
    """Raises TypeError unless the mask is a list of bools, or None."""
    if mask is None:
        return
    if isinstance(mask, (list, tuple)) and all(is_flag(each) for each in mask):
        return
    raise TypeError(
        "outfeed_mask must be a list or a tuple of bools, one for each output of the last "
        f"computational stage, got {mask!r}."
    )


def check_optimizer_function(function: object) -> None:
    """Raises TypeError unless the function is callable, or None."""
    if function is None or callable(function):
        return
    raise TypeError(
        "optimizer_function must be a function that takes what the last stage returns and "
        f"returns an OptimizerFunctionOutput, or None, got {type(function).__name__}."
    )


def check_stage_options(name: str, options: object, stages: int) -> None:
    """Checks the compiler options of the stages.

    Raises:
        TypeError: They are not a list of PipelineStageOptions.
        ValueError: Their number is not that of the stages.
    """
    if options is None:
        return
    if not isinstance(options, (list, tuple)):
        raise TypeError(
            f"{name} must be a list or a tuple of PipelineStageOptions, got "
            f"{type(options).__name__}."
        )
    for each in options:
        if not isinstance(each, PipelineStageOptions):
            raise TypeError(
                f"{name} must be a list of PipelineStageOptions, got "
                f"{type(each).__name__} in it."
            )
    if len(options) != stages:
        raise ValueError(
            f"{name} must be a list or a tuple of the same length as "
            f"computational_stages: {len(options)} != {stages}."
        )


def check_weight_update_options(options: object) -> None:
    """Raises TypeError unless the weight update's options are PipelineStageOptions."""
    if options is not None and not isinstance(options, PipelineStageOptions):
        raise TypeError(
            "weight_update_poplar_options to be of type PipelineStageOptions, but got "
            f"{type(options).__name__} instead."
        )


def check_update(
    continuous: bool, serialization: int, reduction: GradientAccumulationReductionMethod
) -> None:
    """Checks the combination of the weight update's options.

    Raises:
        ValueError: The reduction method excludes batch serialization.
        NotImplementedError: Weight updates are continuous.
    """
    if serialization > 1 and reduction is not GradientAccumulationReductionMethod.SUM:
        raise ValueError(
            "Batch serialization is only supported with the reduction method SUM, but got "
            f"{reduction.name}."
        )
    if continuous:
        raise NotImplementedError(
            "Continuous weight updates are currently not supported."
        )


def with_older_count(function: Function) -> Function:
    """Decorates `pipeline` or a spec of it: takes `pipeline_depth`, the older count.

    Raises:
        TypeError: At a call: the count is given twice.
    """
    count = "gradient_accumulation_count"
    place = list(inspect.signature(function).parameters).index(count)

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        if "pipeline_depth" in keywords:
            if len(arguments) > place or count in keywords:
                raise TypeError(
                    f"`pipeline_depth` is the older name of `{count}`, and both are "
                    f"given: leave `pipeline_depth` ({keywords['pipeline_depth']!r}) out."
                )
            keywords[count] = keywords.pop("pipeline_depth")
        return function(*arguments, **keywords)

    return cast(Function, called)
