"""Checks of a pipeline's stages, counts and schedule; errors name the argument."""

from __future__ import annotations

import enum
import operator

import tensorflow as tf

from ipufeed import _native
from ipufeed.parallel.pipeline.options import RecomputationMode
from ipufeed.parallel.pipeline.schedules import (
    PipelineSchedule,
    Schedule,
    possible_counts,
    refusal,
)
from ipufeed.tf_types import NestFunction, Tensor

INT32_MAX = 2**31 - 1
# So that the number of IPUs, a power of two, is an int32.
_LAST_DEVICE = 2**30 - 1
# In a device_mapping: the stage is on all IPUs. User programs refer to this name.
_ALL_DEVICES = -1

Stages = list[list[NestFunction]]  # of each stage, its concurrent functions
Mapping = tuple[tuple[int, ...], ...]  # of each stage, their IPUs


def check_count(count: object, name: str, least: int = 0) -> int:
    """Checks a number that must be known when the program is built.

    Raises:
        ValueError: It is None, or not in [least, 2^31).
        TypeError: It is not an integer.
    """
    if count is None:
        raise ValueError(f"{name} must be specified.")
    try:
        if isinstance(count, bool):
            raise TypeError("a bool counts nothing")
        number = operator.index(count)  # type: ignore[arg-type]
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


def check_mini_batches(count: Tensor) -> int | Tensor:
    """Checks gradient_accumulation_count; returns an int, or the tensor.

    Raises:
        ValueError: It is None, not a scalar, or known and not in [0, 2^31).
        TypeError: It is not an integer.
    """
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
    count: int | Tensor, schedule: Schedule, serialization: int, io_tiles: bool
) -> int | Tensor:
    """Checks the mini-batches of an execution; a tensor is checked when it runs.

    Args:
        count: An int, or a tensor, of the current graph or eager.
        schedule: The schedule of the pipeline.
        serialization: Iterations of each stage for one of the count.
        io_tiles: Whether some tiles are reserved for data transfer.

    Returns:
        An int, or an int32 scalar: all iterations of a stage. An int that the schedule
        does not allow becomes a tensor, and the program fails with a
        FailedPreconditionError when it runs: other errors are raised first.
    """
    if not tf.is_tensor(count):
        if not refusal(schedule, count, io_tiles):
            return count * serialization
        count = tf.constant(count, tf.int64)
    multiple, least = possible_counts(schedule, io_tiles)
    # IPUs count in 32 bits, up to the end of the last mini-batch.
    most = INT32_MAX // serialization - schedule.length
    number = tf.reshape(tf.cast(count, tf.int64), [])
    checked = _native.load().ipufeed_pipeline_count(
        number, multiple=multiple, least=least, most=most
    )
    return checked * serialization


def check_stages(stages: object) -> Stages:
    """Checks the stages; returns lists of concurrent functions, most of length one.

    Raises:
        TypeError: It is not a list, or an element is not callable.
        ValueError: Lists are nested deeper, or empty.
    """
    if not isinstance(stages, (list, tuple)):
        raise TypeError(
            "computational_stages argument needs to be a list or a tuple, got "
            f"{type(stages).__name__}."
        )
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
            raise ValueError(
                "A list of concurrent stages must not be empty, as that of stage "
                f"{len(found)} is."
            )
        found.append(concurrent)
    return found


def check_number_of_stages(stages: Stages) -> None:
    """Raises ValueError if there are fewer than two."""
    if len(stages) < 2:
        raise ValueError(
            f"Pipeline requires at least two computational stages, got {len(stages)}."
        )


def check_mapping(mapping: object, stages: Stages, one_device: bool) -> Mapping:
    """Checks device_mapping; returns the IPUs of each stage.

    Args:
        mapping: The argument, or None.
        stages: The stages.
        one_device: Whether the default is one IPU for all stages.

    Raises:
        TypeError: It is not a list, or an element is not an integer.
        ValueError: It does not fit the stages.
    """
    if mapping is None:
        return _default_mapping(stages, one_device)
    if not isinstance(mapping, (list, tuple)):
        raise TypeError(
            "device_mapping argument needs to be a list or a tuple, got "
            f"{type(mapping).__name__} {mapping!r}."
        )
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
            if int(each) > _LAST_DEVICE:
                raise ValueError(
                    f"device_mapping must hold numbers of at most {_LAST_DEVICE}, got "
                    f"{each}: a pipeline needs as many IPUs as its highest number plus 1."
                )
            if int(each) < _ALL_DEVICES:
                raise ValueError(
                    "device_mapping must hold IPUs from 0, or -1 for all of them, got "
                    f"{each}."
                )
        found.append(tuple(int(each) for each in devices))
    return tuple(found)


def _default_mapping(stages: Stages, one_device: bool) -> Mapping:
    found = []
    number = 0
    for concurrent in stages:
        if one_device:
            found.append((0,) * len(concurrent))
            continue
        found.append(tuple(range(number, number + len(concurrent))))
        number += len(concurrent)
    return tuple(found)


def devices_needed(mapping: Mapping) -> int:
    """Returns the number of IPUs of a pipeline: a power of two."""
    most = 1 + max(max(devices) for devices in mapping)
    return 1 << (most - 1).bit_length()


def without_all_devices(
    mapping: Mapping,
) -> Mapping:
    """Replaces "all IPUs" by the one that computes the stage here: the first in use."""
    used = [each for devices in mapping for each in devices if each != _ALL_DEVICES]
    first = min(used, default=0)
    return tuple(
        tuple(first if each == _ALL_DEVICES else each for each in devices)
        for devices in mapping
    )


def check_schedule(
    schedule: PipelineSchedule | None, serialization: int
) -> PipelineSchedule:
    """Checks the schedule; None is the default one.

    Raises:
        TypeError: It is not a PipelineSchedule.
        NotImplementedError: It does not support batch serialization.
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
            f"enumeration, got {schedule!r}. {_members(PipelineSchedule)}"
        )
    if serialization > 1 and schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError(
            "Batch serialization is only supported with the `Sequential` schedule. Got "
            f"{schedule.name}."
        )
    return schedule


def _members(kinds: type[enum.Enum]) -> str:
    names = [f"{kinds.__name__}.{each.name}" for each in kinds]
    return f"Give one of {', '.join(names)}, of pipelining_ops."


def check_devices(
    mapping: Mapping,
    schedule: PipelineSchedule,
    serialization: int,
    training: bool,
) -> None:
    """Raises NotImplementedError if the schedule does not support the mapping."""
    devices = [each for devices in mapping for each in devices if each != _ALL_DEVICES]
    twice = len(set(devices)) < len(devices)
    if schedule is PipelineSchedule.Interleaved and training and twice:
        raise NotImplementedError(
            "The pipelining schedule 'Interleaved' does not currently support multiple "
            "pipeline stages on the same device for training graphs. Please use a "
            "different pipelining schedule."
        )
    if serialization > 1 and len(set(devices)) > 1:
        raise NotImplementedError(
            "When using batch serialization, all the pipeline stages need to be mapped to "
            "a single IPU."
        )


def check_recomputation(
    mode: RecomputationMode | None, schedule: PipelineSchedule
) -> RecomputationMode:
    """Checks the recomputation mode; None is Auto.

    Raises:
        TypeError: It is not a RecomputationMode.
        ValueError: The schedule does not support it.
    """
    if mode is None:
        return RecomputationMode.Auto
    if not isinstance(mode, RecomputationMode):
        raise TypeError(
            "The given recomputation_mode is not a member of the RecomputationMode "
            f"enumeration, got {mode!r}. {_members(RecomputationMode)}"
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
            f"schedule {schedule.name}. Choose another mode or schedule; the mode Auto "
            "suits each schedule."
        )
    return mode
