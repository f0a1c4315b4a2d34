"""Accumulates the gradients of a Keras optimizer over the iterations of a loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipufeed.parallel.optimizers.accumulation import GradientAccumulationOptimizerV2
from ipufeed.tf_types import GradAndVar, Operation, Optimizer, Variable

_Optimizer: Any = tf.compat.v1.train.Optimizer


class _Update(_Optimizer):  # type: ignore[misc]
    """The update of a Keras optimizer, as a TensorFlow 1 optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(use_locking=False, name=optimizer.name)
        self._keras = optimizer

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> None:
        """Updates the variables; the function that is traced orders the operations."""
        del global_step, name
        self._keras.apply_accumulated(grads_and_vars)


def accumulated_update(optimizer: Optimizer, pairs: list[GradAndVar]) -> Operation:
    """Builds the op that accumulates, and updates after the last mini-batch.

    Args:
        optimizer: A GradientAccumulationOptimizer of this package, which is built.
        pairs: The gradients of a mini-batch, mapped.
    """
    # One for each optimizer: in eager mode it has the sums.
    accumulating = optimizer.__dict__.get("_accumulating")
    if accumulating is None:
        accumulating = GradientAccumulationOptimizerV2(
            _Update(optimizer),
            optimizer.num_mini_batches,
            dtype=optimizer.sum_dtype,
            reduction_method=optimizer.reduction_method,
        )
        optimizer.__dict__["_accumulating"] = accumulating
    return accumulating.apply_gradients(pairs)
