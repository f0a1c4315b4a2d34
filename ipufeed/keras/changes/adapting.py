"""`adapt` of preprocessing layers in the scope of an IPUStrategy: on the host.

In the scope an iterator over a dataset is a feed of the IPU, which carries neither texts
nor batches of different sizes, and the statistics of some layers change their shape.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

from ipufeed.device.program.strategy import current_strategy
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import KerasLayer, NestFunction

LAYERS = (
    *("Discretization", "IntegerLookup", "Normalization", "StringLookup"),
    "TextVectorization",
)


def adapt_on_host(stock: NestFunction) -> NestFunction:
    """Returns a layer's `adapt` that leaves the scope of an IPUStrategy."""

    @functools.wraps(stock)
    def adapt(layer: KerasLayer, *arguments: object, **keywords: object) -> object:
        strategy = current_strategy()
        if strategy is None:
            return stock(layer, *arguments, **keywords)
        # Scopes of strategies and devices belong to a thread: a new one has none.
        with ThreadPoolExecutor(1, "ipufeed_keras_adapt") as thread:
            result = thread.submit(stock, layer, *arguments, **keywords).result()
        for each in layer.variables:
            if isinstance(each, tf.Variable):  # tf_keras accepts those of the scope
                each._distribute_strategy = strategy
        return result

    return adapt


def adapt_keras3() -> None:
    """Makes the layers of Keras 3 adapt on the host."""
    import keras

    for name in LAYERS:
        layer = getattr(keras.layers, name)
        replace(layer, "adapt", adapt_on_host(layer.adapt))
