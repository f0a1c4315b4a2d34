"""tf_keras's layers that encode numbers as categories train in a compiled program."""

import contextlib

import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from ipufeed.device.program.strategy import IPUStrategy

CODES = (np.arange(192) * 7 % 20).reshape(64, 3).astype("int32")
NUMBERS, LABELS = keras_models.arrays()
layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    keras_models.configure(1)
    return IPUStrategy()


def categories(mode, **keywords):
    def make():
        inputs = keras.Input((3,), dtype="int32")
        taken = inputs[:, :1] if mode == "one_hot" else inputs
        return inputs, layers.CategoryEncoding(20, mode, **keywords)(taken)

    return make, CODES


def weighted():
    inputs = keras.Input((3,), dtype="int32")
    weights = tf.cast(inputs, "float32") / 3
    encoded = layers.CategoryEncoding(20, "count")(inputs, count_weights=weights)
    return inputs, encoded


def bins(mode, adapts=False):
    def make():
        inputs = keras.Input((keras_models.FEATURES,))
        if adapts:
            layer = layers.Discretization(num_bins=4, output_mode=mode)
            layer.adapt(NUMBERS)
        else:
            layer = layers.Discretization([-0.5, 0.0, 0.7], output_mode=mode)
        encoded = layer(inputs[:, :1] if mode == "one_hot" else inputs)
        if mode == "int":
            encoded = layers.Flatten()(layers.Embedding(4, 2)(encoded))
        return inputs, encoded

    return make, NUMBERS


@pytest.mark.parametrize(
    "case",
    [
        categories("one_hot"),
        categories("multi_hot"),
        categories("count"),
        (weighted, CODES),
        bins("one_hot"),
        bins("multi_hot"),
        bins("count"),
        bins("int", adapts=True),
    ],
    ids=[
        *("one-hot", "multi-hot", "count", "weighted"),
        *("bins-one-hot", "bins-multi-hot", "bins-count", "bins-int"),
    ],
)
def test_categories_are_encoded_as_in_stock_tf_keras(strategy, case):
    """Training and predictions, in each output mode."""
    make, x = case
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            keras.utils.set_random_seed(7)
            inputs, encoded = make()
            outputs = layers.Dense(keras_models.CLASSES)(encoded)
            model = keras.Model(inputs, outputs)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss, steps_per_execution=4)
        history = model.fit(x, LABELS, 8, epochs=2, verbose=0, shuffle=False)
        found.append((history.history["loss"], model.predict(x, 8, verbose=0)))

    (losses, predictions), (ours, predicted) = found
    assert np.allclose(losses, ours, rtol=1e-5)
    assert np.allclose(predictions, predicted, atol=1e-5)
