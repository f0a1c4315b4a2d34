"""What a pipeline's arguments must be; each error says which, and what to do."""

from __future__ import annotations

import operator
from typing import Any

from ipufeed import _native
from ipufeed.checks import is_flag
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.checks import check_sharded_state
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)
from ipufeed.parallel.pipeline.options import PipelineStageOptions, RecomputationMode
from ipufeed.parallel.pipeline.schedules import (
    PipelineSchedule,
    Schedule,
    possible_counts,
    refusal,
)

INT32_MAX = 2**31 - 1

Stages = list[list[Any]]


def check_count(count: Any, name: str, least: int = 0) -> int:
    """A number that is known when the program is built.

    Raises:
        ValueError: It is none, or not in [least, 2^31).
        TypeError: It is not an integer.
    """
    if count is None:
        raise ValueError(f"{name} must be specified.")
    try:
        if isinstance(count, bool):
            raise TypeError("a bool counts nothing")
        number = operator.index(count)
    except TypeError as error:
        raise TypeError(
            f"`{name}` must be an integer that is known when the program is built, got "
            f"{type(count).__name__}: pass its value."
        ) from error
    if number < least:
        raise ValueError(f"{name} must be a positive integer, got {number}.")
    if number > INT32_MAX:
        raise ValueError(f"{name} must fit a 32-bit integer, got {number}.")
    return number


def check_mini_batches(count: Any) -> Any:
    """gradient_accumulation_count: an int, or a tensor as it is.

    Raises:
        ValueError: It is none, no single number, or not in [0, 2^31), if that is known.
        TypeError: It is not an integer.
    """
    import tensorflow as tf

    name = "gradient_accumulation_count"
    if not tf.is_tensor(count):
        return check_count(count, name)
    if not count.dtype.is_integer:
        raise TypeError(f"`{name}` must be an integer, got {count.dtype.name}.")
    if count.shape.rank not in (None, 0):
        raise ValueError(
            f"`{name}` must be a single number, got a tensor of shape {count.shape}."
        )
    known = tf.get_static_value(count)
    if known is not None:
        check_count(known, name)
    return count


def check_scheduled(
    count: Any, schedule: Schedule, serialization: int, io_tiles: bool
) -> Any:
    """The mini-batches of an execution; that of a tensor is looked at when it runs.

    Args:
        count: An int, or a tensor, of the current graph or eager.
        schedule: Which has them.
        serialization: How often each stage runs for one of the count.
        io_tiles: Whether some tiles only move data.

    Returns:
        An int, or an int32 scalar, of all iterations of a stage.

    Raises:
        tf.errors.FailedPreconditionError: The schedule cannot have this number; for a
            tensor when the program runs.
    """
    import tensorflow as tf

    known = tf.get_static_value(count) if tf.is_tensor(count) else count
    if known is not None:
        refused = refusal(schedule, int(known), io_tiles)
        if refused:
            raise tf.errors.FailedPreconditionError(None, None, refused)
    if not tf.is_tensor(count):
        return count * serialization
    multiple, least = possible_counts(schedule, io_tiles)
    # The chips count in 32 bits, and to the end of the last mini-batch.
    most = INT32_MAX // serialization - schedule.length
    number = tf.reshape(tf.cast(count, tf.int64), [])
    checked = _native.load().ipufeed_pipeline_count(
        number, multiple=multiple, least=least, most=most
    )
    return checked * serialization


def check_stages(stages: Any) -> Stages:
    """Lists of concurrent functions; most have one.

    Raises:
        TypeError: It is not a list, or an element cannot be called.
        ValueError: There are fewer than two stages, or lists in lists.
    """
    if not isinstance(stages, (list, tuple)):
        raise TypeError("computational_stages argument needs to be a list or a tuple.")
    found: Stages = []
    for stage in stages:
        concurrent = list(stage) if isinstance(stage, (list, tuple)) else [stage]
        for each in concurrent:
            if isinstance(each, (list, tuple)):
                raise ValueError(
                    "computational_stages may be nested once, for concurrent stages: got "
                    "a list inside a list of concurrent stages."
                )
            if not callable(each):
                raise TypeError(
                    "Each computational stage must be a function, got "
                    f"{type(each).__name__}."
                )
        if not concurrent:
            raise ValueError("A list of concurrent stages must not be empty.")
        found.append(concurrent)
    if len(found) < 2:
        raise ValueError("Pipeline requires at least two computational stages.")
    return found


def check_mapping(
    mapping: Any, stages: Stages, one_device: bool
) -> tuple[tuple[int, ...], ...]:
    """The IPUs of the stages.

    Args:
        mapping: What was given, or None.
        stages: The stages.
        one_device: Whether all are on one IPU unless something else is said.

    Raises:
        TypeError: It is not a list, or an element is not an integer.
        ValueError: It does not fit the stages.
    """
    if mapping is None:
        return default_mapping(stages, one_device)
    if not isinstance(mapping, (list, tuple)):
        raise TypeError("device_mapping argument needs to be a list or a tuple.")
    if len(mapping) != len(stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: {len(mapping)} mappings != "
            f"{len(stages)} stages"
        )
    found = []
    for place, (device, concurrent) in enumerate(zip(mapping, stages, strict=True)):
        devices = list(device) if isinstance(device, (list, tuple)) else [device]
        if any(isinstance(each, (list, tuple)) for each in devices):
            raise ValueError("device_mapping may be nested once, as the stages are.")
        if len(devices) != len(concurrent):
            raise ValueError(
                f"Each stage must be mapped to an IPU: {len(devices)} mappings != "
                f"{len(concurrent)} concurrent stages, of stage {place}"
            )
        for each in devices:
            if isinstance(each, bool) or not hasattr(each, "__index__"):
                raise TypeError(
                    f"device_mapping must hold integers, got {type(each).__name__}."
                )
            if int(each) < 0:
                raise ValueError(f"device_mapping must not be negative, got {each}.")
        found.append(tuple(int(each) for each in devices))
    return tuple(found)


def default_mapping(stages: Stages, one_device: bool) -> tuple[tuple[int, ...], ...]:
    """An IPU for each stage, or one for all."""
    found = []
    number = 0
    for concurrent in stages:
        if one_device:
            found.append((0,) * len(concurrent))
            continue
        found.append(tuple(range(number, number + len(concurrent))))
        number += len(concurrent)
    return tuple(found)


def devices_needed(mapping: tuple[tuple[int, ...], ...]) -> int:
    """IPUs of a pipeline: a power of two."""
    most = 1 + max(max(devices) for devices in mapping)
    return 1 << (most - 1).bit_length()


def check_schedule(
    schedule: Any,
    serialization: int,
    mapping: tuple[tuple[int, ...], ...],
    training: bool,
) -> PipelineSchedule:
    """The schedule that is meant.

    Raises:
        TypeError: It is none.
        NotImplementedError: It cannot do what is asked for.
    """
    if schedule is None:
        schedule = (
            PipelineSchedule.Sequential
            if serialization > 1
            else PipelineSchedule.Grouped
        )
    if not isinstance(schedule, PipelineSchedule):
        raise TypeError(
            "The given pipeline_schedule is not a member of the PipelineSchedule "
            f"enumeration, got {schedule!r}."
        )
    if serialization > 1 and schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError(
            "Batch serialization is only supported with PipelineSchedule.Sequential, but "
            f"got {schedule.name}."
        )
    devices = [each for concurrent in mapping for each in concurrent]
    if serialization > 1 and len(set(devices)) > 1:
        raise NotImplementedError(
            "When using batch serialization, all the pipeline stages need to be mapped to "
            "a single IPU."
        )
    twice = len(set(devices)) < len(devices)
    if schedule is PipelineSchedule.Interleaved and training and twice:
        raise NotImplementedError(
            "The pipelining schedule 'Interleaved' does not currently support multiple "
            "pipeline stages on the same device for training graphs. Please use a "
            "different pipelining schedule."
        )
    return schedule


def check_recomputation(mode: Any, schedule: PipelineSchedule) -> RecomputationMode:
    """The mode that is meant.

    Raises:
        TypeError: It is none.
        ValueError: The schedule does not have it.
    """
    if mode is None:
        return RecomputationMode.Auto
    if not isinstance(mode, RecomputationMode):
        raise TypeError(
            "The given recomputation_mode is not a member of the RecomputationMode "
            f"enumeration, got {mode!r}."
        )
    not_for = {
        RecomputationMode.RecomputeThenBackpropagate: PipelineSchedule.Sequential,
        RecomputationMode.RecomputeAndBackpropagateInterleaved: (
            PipelineSchedule.Interleaved
        ),
    }
    if not_for.get(mode) is schedule:
        raise ValueError(
            f"The recomputation mode {mode.name} is not supported with the pipeline "
            f"schedule {schedule.name}."
        )
    return mode


_COMPILER = "XLA compiles its programs for the CPU, without Poplar's libraries"
_MEMORY = "its memory is the host's, and the numbers are the same"
# The arguments of `pipeline` that change nothing.
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
_INFERENCE = "without an `optimizer_function` the pipeline has no gradients"


def warn_of_no_effect(**given: bool) -> None:
    """Warns once of each argument of `pipeline` that was given and changes nothing."""
    for name, is_given in given.items():
        if is_given:
            no_effect(f"pipeline({name}=)", NO_EFFECT[name])


def warn_of_no_effect_on_inference(**given: bool) -> None:
    """Warns once of each argument that concerns gradients, and was given without any."""
    for name, is_given in given.items():
        if is_given:
            no_effect(f"pipeline({name}=)", _INFERENCE)


def has_options(options: Any) -> bool:
    """Whether a PipelineStageOptions, or one of several, has any option."""
    several = options if isinstance(options, (list, tuple)) else [options]
    return any(each is not None and any(vars(each).values()) for each in several)


def check_queues(infeed_queue: Any, outfeed_queue: Any) -> None:
    """Raises TypeError unless they are queues, or None."""
    from ipufeed.queues.infeed import IPUInfeedQueue
    from ipufeed.queues.outfeed import IPUOutfeedQueue

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
    outfeed_queue: Any,
    training: bool,
    outfeed_loss: bool,
    accumulate_outfeed: bool,
    outfeed_mask: Any,
) -> None:
    """What of the outfeed's options goes together.

    Raises:
        ValueError: They do not.
        TypeError: The mask is none.
    """
    from ipufeed.queues.outfeed import IPUOutfeedMode

    if outfeed_loss and not training:
        raise ValueError(
            "An optimizer_function must be provided when outfeed_loss is True."
        )
    if outfeed_mask is not None and not training:
        raise ValueError(
            "An optimizer_function must be provided when outfeed_mask is used."
        )
    if outfeed_loss and outfeed_mask is not None:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
    check_mask(outfeed_mask)
    if not accumulate_outfeed:
        return
    if outfeed_queue is None:
        raise ValueError(
            "An outfeed_queue must be provided when accumulate_outfeed is True."
        )
    if outfeed_queue._outfeed_mode is not IPUOutfeedMode.ALL:
        raise ValueError("To accumulate the outfeed, it must be in IPUOutfeedMode ALL.")


def check_mask(mask: Any) -> None:
    """Raises TypeError unless it is a list of bools, or None."""
    if mask is None:
        return
    if isinstance(mask, (list, tuple)) and all(is_flag(each) for each in mask):
        return
    raise TypeError(
        "outfeed_mask must be a list or a tuple of bools, one for each output of the last "
        f"computational stage, got {mask!r}."
    )


def check_optimizer_function(function: Any) -> None:
    """Raises TypeError unless it can be called, or is None."""
    if function is None or callable(function):
        return
    raise TypeError(
        "optimizer_function must be a function that takes what the last stage returns and "
        f"returns an OptimizerFunctionOutput, or None, got {type(function).__name__}."
    )


def check_stage_options(name: str, options: Any, stages: int) -> None:
    """Options of each stage's compiler.

    Raises:
        TypeError: No list of PipelineStageOptions.
        ValueError: Not one for each stage.
    """
    if options is None:
        return
    if not isinstance(options, (list, tuple)):
        raise TypeError(f"{name} must be a list or a tuple of PipelineStageOptions.")
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


def check_weight_update_options(options: Any) -> None:
    """Options of the weight update's compiler.

    Raises:
        TypeError: No PipelineStageOptions.
    """
    if options is not None and not isinstance(options, PipelineStageOptions):
        raise TypeError(
            "weight_update_poplar_options must be a PipelineStageOptions, got "
            f"{type(options).__name__}."
        )


def check_update(
    continuous: bool,
    state_sharding: bool,
    offload_state: bool,
    serialization: int,
    reduction: GradientAccumulationReductionMethod,
) -> None:
    """What of the weight update's options there is.

    Raises:
        NotImplementedError: There is no such.
        ValueError: They do not go together.
    """
    if continuous:
        raise NotImplementedError(
            "Continuous weight updates are currently not supported."
        )
    check_sharded_state(state_sharding, offload_state)
    if serialization > 1 and reduction is not GradientAccumulationReductionMethod.SUM:
        raise NotImplementedError(
            "Batch serialization is only supported with the reduction method SUM, but got "
            f"{reduction.name}."
        )
