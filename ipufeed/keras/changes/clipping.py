"""Lets Keras 3's optimizers clip, and check, the sum of the replicas' gradients.

Keras 3 clips the gradients of each replica, then adds these up; Keras 2 adds them up first,
so that replicas equal a larger batch. So does its LossScaleOptimizer, which skips an update
if a gradient is not finite: in Keras 3 each replica decides by its own gradients, and one
that updates would wait in a collective for one that does not.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

from ipufeed.device.program.strategy import current_strategy
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import GradAndVar, Tensor, Variable

_are_sums: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_gradients_are_sums", default=False
)


def sum_before_clipping() -> None:
    """Changes the optimizers' class; other strategies keep Keras's order."""
    apply = BaseOptimizer._backend_apply_gradients
    add_up = TFOptimizer._all_reduce_sum_gradients

    def apply_sums(
        self: TFOptimizer, grads: list[Tensor], variables: list[Variable]
    ) -> None:
        clips = self.clipnorm or self.global_clipnorm or self.clipvalue
        if not clips or current_strategy() is None:
            apply(self, grads, variables)
            return
        pairs = add_up(self, zip(grads, variables, strict=True))
        with _summed():
            apply(self, [gradient for gradient, _ in pairs], variables)

    def add_up_once(
        self: TFOptimizer, grads_and_vars: list[GradAndVar]
    ) -> list[GradAndVar]:
        return grads_and_vars if _are_sums.get() else add_up(self, grads_and_vars)

    apply_scaled = LossScaleOptimizer.apply

    def apply_finite_sums(
        self: LossScaleOptimizer,
        grads: list[Tensor],
        trainable_variables: list[Variable] | None = None,
    ) -> None:
        if current_strategy() is None or _are_sums.get():
            apply_scaled(self, grads, trainable_variables)
            return
        variables = trainable_variables or self._trainable_variables
        pairs = add_up(self, zip(grads, variables, strict=True))
        with _summed():
            apply_scaled(self, [gradient for gradient, _ in pairs], trainable_variables)

    replace(BaseOptimizer, "_backend_apply_gradients", apply_sums)
    replace(LossScaleOptimizer, "apply", apply_finite_sums)
    replace(TFOptimizer, "_all_reduce_sum_gradients", add_up_once)


@contextlib.contextmanager
def _summed() -> Iterator[None]:
    token = _are_sums.set(True)
    try:
        yield
    finally:
        _are_sums.reset(token)
