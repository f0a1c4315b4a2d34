"""tf_keras's layers that encode numbers as categories train in a compiled program."""

import contextlib

import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

CODES = (np.arange(192) * 7 % 20).reshape(64, 3).astype("int32")
NUMBERS, LABELS = keras_models.arrays()
layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    keras_models.configure(1)
    return IPUStrategy()


def categories():
    """Each output mode of CategoryEncoding, and weighted counts."""
    inputs = keras.Input((3,), dtype="int32")
    weights = tf.cast(inputs, "float32") / 3
    count = layers.CategoryEncoding(20, "count")
    encoded = [
        layers.CategoryEncoding(20, "one_hot")(inputs[:, :1]),
        layers.CategoryEncoding(20, "multi_hot")(inputs),
        count(inputs),
        count(inputs, count_weights=weights),
    ]
    return inputs, encoded


def bins():
    """Each output mode of Discretization; the bins of one are adapted to the data."""
    inputs = keras.Input((keras_models.FEATURES,))
    adapted = layers.Discretization(num_bins=4, output_mode="int")
    adapted.adapt(NUMBERS)
    limits = [-0.5, 0.0, 0.7]
    encoded = [
        layers.Discretization(limits, output_mode="one_hot")(inputs[:, :1]),
        layers.Discretization(limits, output_mode="multi_hot")(inputs),
        layers.Discretization(limits, output_mode="count")(inputs),
        layers.Flatten()(layers.Embedding(4, 2)(adapted(inputs))),
    ]
    return inputs, encoded


@pytest.mark.parametrize(("make", "x"), [(categories, CODES), (bins, NUMBERS)])
def test_categories_are_encoded_as_in_stock_tf_keras(strategy, make, x):
    """Training and predictions, in each output mode."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            keras.utils.set_random_seed(7)
            inputs, encoded = make()
            joined = layers.Concatenate()(encoded)
            outputs = layers.Dense(keras_models.CLASSES)(joined)
            model = keras.Model(inputs, outputs)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss, steps_per_execution=4)
        history = model.fit(x, LABELS, 8, epochs=2, verbose=0, shuffle=False)
        found.append((history.history["loss"], model.predict(x, 8, verbose=0)))

    (losses, predictions), (ours, predicted) = found
    assert np.allclose(losses, ours, rtol=1e-5)
    assert np.allclose(predictions, predicted, atol=1e-5)
