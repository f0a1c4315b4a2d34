"""Adds weights to a built layer on its IPU: `enable_lora` and `quantize` of Keras 3."""

from __future__ import annotations

import functools

import tensorflow as tf
from keras.src.layers.layer import Layer

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import KerasLayer, Variable


def add_weights_to_the_device() -> None:
    """Makes a layer with weights on an IPU add others there, outside of the scope too."""
    stock = Layer.add_weight

    @functools.wraps(stock)
    def add_weight(
        layer: KerasLayer, *arguments: object, **keywords: object
    ) -> Variable:
        strategy = _strategy_of(layer)
        if strategy is None:
            return stock(layer, *arguments, **keywords)
        with strategy.scope():
            return stock(layer, *arguments, **keywords)

    replace(Layer, "add_weight", add_weight)


def _strategy_of(layer: KerasLayer) -> IPUStrategyV1 | None:
    """Returns the IPUStrategy of a layer's weights; None in a scope, or without one."""
    if tf.distribute.has_strategy() or not tf.executing_eagerly():
        return None
    own = (*layer._trainable_variables, *layer._non_trainable_variables)
    for each in own:
        made_in = getattr(each._value, "_distribute_strategy", None)
        if isinstance(made_in, IPUStrategyV1):
            return made_in
    return None
