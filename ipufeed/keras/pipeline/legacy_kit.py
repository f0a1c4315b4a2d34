"""The pipelines' part of the kit of tf_keras; see ipufeed.keras.kit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tf_keras as keras
from tf_keras.src.engine import data_adapter

from ipufeed.keras.pipeline import legacy_calls, scope
from ipufeed.keras.pipeline.calls import Graph, Logs
from ipufeed.tf_types import GradAndVar, KerasModel, Nest, Optimizer, Tensor, Variable


class Unscaling(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Divides gradients by a LossScaleOptimizer's scale, which does not do so itself.

    Args:
        scaling: The LossScaleOptimizer.
    """

    def __init__(self, scaling: Optimizer) -> None:
        object.__setattr__(self, "_scaling", scaling)

    @property
    def variables(self) -> list[Variable]:
        """The variables of the LossScaleOptimizer."""
        state = self._scaling.variables
        return list(state() if callable(state) else state)

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], **keywords: object
    ) -> Any:
        """Applies the unscaled gradients."""
        gradients, weights = zip(*grads_and_vars, strict=True)
        gradients = self._scaling.get_unscaled_gradients(gradients)
        pairs = zip(gradients, weights, strict=True)
        return self._scaling.apply_gradients(pairs, **keywords)


class Pipelines:
    """The part of the kit that pipelines use; kit.Kit describes the methods."""

    def kind(self, model: KerasModel) -> str:
        if isinstance(model, keras.Sequential):
            return "sequential"
        return "functional" if legacy_calls.is_taken_apart(model) else "model"

    def is_taken_apart(self, model: KerasModel) -> bool:
        return legacy_calls.is_taken_apart(model)

    def may_be_pipelined(self, model: KerasModel, given: object) -> bool:
        del model
        return given is not None or scope.times_entered() > 0

    def x(self, example: Nest) -> Nest:
        return data_adapter.unpack_x_y_sample_weight(example)[0]

    def example(self, model: KerasModel) -> Nest:
        called_with = model._saved_model_inputs_spec
        if called_with is not None:
            return (called_with,)
        shape = model._build_input_shape
        if shape is None or isinstance(shape, (dict, list)):
            return None
        return (tf.TensorSpec(shape, model.compute_dtype),)

    def graph(self, model: KerasModel, x: Nest) -> Graph:
        return legacy_calls.graph_of(model, x)

    def inputs(self, model: KerasModel, element: Nest) -> list[Tensor]:
        return legacy_calls.conformed(model, self.x(element))

    def finish_step(
        self, model: KerasModel, data: Nest, y_pred: Nest, losses: Tensor, mode: str
    ) -> tuple[Tensor, Logs]:
        x, y, sample_weight = data_adapter.unpack_x_y_sample_weight(data)
        if type(model).compute_loss is not keras.Model.compute_loss:
            loss = model.compute_loss(x, y, y_pred, sample_weight)
        else:
            loss = model.compiled_loss(
                y, y_pred, sample_weight, regularization_losses=[losses]
            )
        logs = model.compute_metrics(x, y, y_pred, sample_weight)
        if mode == "fit" and hasattr(model.optimizer, "get_scaled_loss"):
            loss = model.optimizer.get_scaled_loss(loss)
        return loss, logs

    def optimizer(self, model: KerasModel) -> Optimizer:
        scales = hasattr(model.optimizer, "get_scaled_loss")
        return Unscaling(model.optimizer) if scales else model.optimizer

    def variables(self, variables: list[Variable]) -> list[Variable]:
        return list(variables)
