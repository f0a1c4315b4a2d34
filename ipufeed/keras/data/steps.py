"""Counts the steps of a call and of an execution, and checks their divisibility."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.device.log import LOGGER
from ipufeed.keras.checks.arguments import check_steps, refuse_unknown_size


@dataclass(frozen=True)
class Steps:
    """Counts of one epoch of one call, per replica.

    Attributes:
        epoch: Steps of an epoch.
        execution: Steps of one execution; divides `epoch`.
    """

    epoch: int
    execution: int


def count_steps(
    size: int | None,
    steps: int | None,
    steps_per_execution: int,
    replicas: int,
    epochs: int,
    argument: str = "steps",
) -> Steps:
    """Counts the steps of a call over a dataset.

    Args:
        size: Batches of one iteration over the dataset; None if unknown or infinite.
        steps: The caller's argument, per replica; None: all of the dataset.
        steps_per_execution: The argument of `compile`.
        replicas: Each takes a batch in a step.
        epochs: Epochs that share one iteration over the dataset.
        argument: The name of the caller's argument for the steps.

    Raises:
        ValueError: The size is needed and unknown, there is too little data, or
            `steps_per_execution` does not divide the steps.
    """
    if steps is None:
        if size is None:
            refuse_unknown_size(argument)
        steps, rest = divmod(size, replicas)
        if steps == 0:
            raise ValueError(
                f"The provided dataset contains {size} items, but all {replicas} replicas "
                f"are requested to run 1 steps each. Make sure the dataset contains at "
                f"least {replicas} items."
            )
        if rest:
            LOGGER.warning(
                "Dataset of length %d is being evenly distributed between %d replicas. "
                "The remaining %d batches will be dropped.",
                *(size, replicas, rest),
            )
    elif check_steps("steps", steps) and size is not None and size < steps * replicas:
        raise ValueError(
            f"The provided dataset contains {size} items, but all {replicas} replicas "
            f"are requested to run {steps} steps each. Make sure the dataset contains at "
            f"least {steps * replicas} items."
        )
    needed = steps * replicas * epochs
    if size is not None and size < needed:
        raise ValueError(
            "Your input does not have enough data. Make sure that your dataset or "
            f"generator can generate at least {needed} batches (currently it can only "
            f"generate {size} batches). You may need to use the repeat() function when "
            "building your dataset."
        )
    return Steps(int(steps), _execution(int(steps), steps_per_execution, replicas))


def _execution(steps: int, steps_per_execution: int, replicas: int) -> int:
    if steps_per_execution > steps:
        LOGGER.warning(
            "`steps_per_execution` has been set to %d but the dataset provided only "
            "contains %d batches. Using %d as `steps_per_execution`.",
            *(steps_per_execution, steps, steps),
        )
        return steps
    if steps % steps_per_execution:
        where = " to this replica" if replicas > 1 else ""
        raise ValueError(
            f"`steps_per_execution` ({steps_per_execution}) must be a divisor of the "
            f"number of batches ({steps}) in the dataset provided{where}. Compile with "
            f"{_divisor(steps, steps_per_execution)}, or change the number of batches: "
            "`steps_per_epoch` or `steps`, or `repeat` and `take` of a dataset."
        )
    return steps_per_execution


def _divisor(steps: int, most: int) -> int:
    return next(each for each in range(most, 0, -1) if steps % each == 0)


def check_accumulation(
    execution: int, accumulation: int | None, pipelined: bool = False
) -> None:
    """Raises RuntimeError unless an execution holds whole weight updates."""
    if accumulation is None or execution % accumulation == 0:
        return
    raise RuntimeError(
        f"The {'pipelined ' if pipelined else ''}model has been configured to use "
        "gradient accumulation for training, however the current `steps_per_execution` "
        f"value (set to {execution}) is not divisible by "
        f"`gradient_accumulation_steps_per_replica` ({accumulation}). You need to adjust "
        "either `steps_per_execution`, which `compile` takes, or "
        "`gradient_accumulation_steps_per_replica`, so that the second divides the first."
    )
