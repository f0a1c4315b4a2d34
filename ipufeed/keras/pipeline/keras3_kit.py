"""The pipelines' part of the kit of Keras 3; see ipufeed.keras.kit."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras.src.losses.loss import (
    scale_loss_for_distribution,
    unscale_loss_for_distribution,
)
from keras.src.models.functional import Functional
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.trainer import Trainer

from ipufeed.keras.pipeline import scope
from ipufeed.keras.pipeline.calls import Graph, Logs
from ipufeed.keras.pipeline.keras3_calls import graph_of
from ipufeed.tf_types import KerasModel, Nest, Optimizer, Tensor


class Pipelines:
    """The part of the kit that pipelines use; kit.Kit describes the methods."""

    def kind(self, model: KerasModel) -> str:
        if isinstance(model, keras.Sequential):
            return "sequential"
        return "functional" if isinstance(model, Functional) else "model"

    def is_taken_apart(self, model: KerasModel) -> bool:
        return isinstance(model, (keras.Sequential, Functional))

    def may_be_pipelined(self, model: KerasModel, given: object) -> bool:
        del model
        return given is not None or scope.times_entered() > 0

    def x(self, example: Nest) -> Nest:
        return data_adapter_utils.unpack_x_y_sample_weight(example)[0]

    def example(self, model: KerasModel) -> Nest:
        shapes = getattr(model, "_build_shapes_dict", None)
        if not shapes or len(shapes) != 1:
            return None
        (shape,) = shapes.values()
        if isinstance(shape, dict) or (shape and isinstance(shape[0], (list, tuple))):
            return None
        return keras.KerasTensor(shape, model.input_dtype)

    def graph(self, model: KerasModel, x: Nest) -> Graph:
        return graph_of(model, x)

    def inputs(self, model: KerasModel, element: Nest) -> list[Tensor]:
        x = self.x(element)
        if isinstance(model, keras.Sequential):
            model = model._functional
        if isinstance(model, Functional):
            return list(model._standardize_inputs(x))
        return list(keras.tree.flatten(x))

    def finish_step(
        self, model: KerasModel, data: Nest, y_pred: Nest, losses: Tensor, mode: str
    ) -> tuple[Tensor, Logs]:
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        loss = losses = scale_loss_for_distribution(losses)
        if type(model).compute_loss is not Trainer.compute_loss:
            loss = model._compute_loss(
                x, y, y_pred, sample_weight, training=mode == "fit"
            )
        elif model._compile_loss is not None:
            value = model._compile_loss(y, y_pred, sample_weight)
            if value is not None:
                loss = value + tf.cast(losses, value.dtype)
        samples = tf.shape(tf.nest.flatten(x)[0])[0]
        whole = unscale_loss_for_distribution(loss)
        model._loss_tracker.update_state(whole, sample_weight=samples)
        if mode == "fit":
            loss = model.optimizer.scale_loss(loss)
        return loss, model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def optimizer(self, model: KerasModel) -> Optimizer:
        return model.optimizer
