"""Converts steps and runs of the older classes to steps and executions of Keras.

In the older classes a step is one weight update of one replica, of G batches; an epoch and
a run count the steps of all replicas. In Keras a step is a batch, and counts are those of
one replica.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import tensorflow as tf

from ipufeed.tf_types import Nest


@dataclass(frozen=True)
class Counts:
    """The counts of one call.

    Attributes:
        steps: Batches of an epoch, per replica.
        execution: Batches of one execution, per replica; divides `steps`.
        dropped: Unused batches of the data.
    """

    steps: int
    execution: int
    dropped: int = 0


def count(
    size: int | None,
    steps: int | None,
    per_run: int | None,
    batches: int,
    replicas: int,
) -> Counts:
    """Counts the batches of a call.

    Args:
        size: Batches of the data; None if unknown or infinite.
        steps: The caller's steps of an epoch; None for all data.
        per_run: Steps of a run; None for all of an epoch.
        batches: The batches of a step.
        replicas: Their number.

    Returns:
        The counts per replica. Batches that no step takes are dropped, with a warning.

    Raises:
        ValueError: A count is missing, is not a positive int, or does not divide
            another one; or the data are fewer than one step.
    """
    dropped = 0
    if steps is None:
        if size is None:
            raise ValueError(
                "The size of the data is unknown: `steps_per_epoch` of fit(), or `steps` "
                "of evaluate() and predict(), must be given."
            )
        steps = size // (batches * replicas) * replicas
        dropped = size - steps * batches
        if steps == 0:
            raise ValueError(
                f"The data have {size} batches, and one step of {replicas} replicas takes "
                f"{batches * replicas}: each replica takes {batches}."
            )
    per_run = steps if per_run is None else per_run
    for name, value in (("steps of an epoch", steps), ("`steps_per_run`", per_run)):
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ValueError(f"The {name} must be a positive int, got {value!r}.")
        if value % replicas:
            raise ValueError(
                f"The {name} ({value}) must be a multiple of the number of replicas "
                f"({replicas}): they count the steps of all replicas."
            )
    if steps % per_run:
        raise ValueError(
            f"`steps_per_run` ({per_run}) must divide the steps of an epoch ({steps})."
        )
    if dropped:
        warnings.warn(
            f"The data have {size} batches, of which an epoch uses {steps * batches}: "
            f"{steps} steps of {batches} batches. The remaining {dropped} batches are "
            "dropped.",
            stacklevel=4,
        )
    return Counts(steps * batches // replicas, per_run * batches // replicas, dropped)


def size_of(x: Nest, batch_size: int | None) -> int | None:
    """Returns the number of batches of data; None if it is unknown or infinite.

    Args:
        x: A dataset, whose elements are batches, or arrays.
        batch_size: The batch size of arrays. None is 32, as in Keras.
    """
    if isinstance(x, tf.data.Dataset):
        size = int(x.cardinality())
        return size if size >= 0 else None
    first = tf.nest.flatten(x)[0]
    return len(first) // (batch_size or 32) if hasattr(first, "__len__") else None
