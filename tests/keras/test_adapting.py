"""Preprocessing layers adapt to data in the scope of a strategy as outside of it."""

import contextlib

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

NUMBERS = keras_models.arrays()[0]
TEXTS = np.array([["a b"], ["c"], ["a c"]], object)


@pytest.fixture(scope="module")
def strategy():
    keras_models.configure(1)
    return IPUStrategy()


@pytest.mark.parametrize("kind", [keras, tf_keras], ids=["keras3", "tf_keras"])
@pytest.mark.parametrize(
    ("name", "data", "arguments"),
    [
        ("Normalization", NUMBERS, {}),
        ("Discretization", NUMBERS, {"num_bins": 4}),
        ("IntegerLookup", np.arange(12).reshape(6, 2) % 5, {}),
        ("StringLookup", TEXTS, {}),
        ("TextVectorization", TEXTS, {}),
    ],
)
def test_layers_adapt_to_data_of_the_host(strategy, kind, name, data, arguments):
    """Arrays, and datasets of texts or with a smaller last batch."""
    batches = tf.data.Dataset.from_tensor_slices(data).batch(5)
    found = []
    for source in (data, batches):
        with strategy.scope():
            layer = getattr(kind.layers, name)(**arguments)
            layer.adapt(source)
        stock = getattr(kind.layers, name)(**arguments)
        stock.adapt(source)
        found.append([np.asarray(each(data)) for each in (layer, stock)])

    assert all(np.array_equal(ours, want) for ours, want in found)


@pytest.mark.parametrize("kind", [keras, tf_keras], ids=["keras3", "tf_keras"])
def test_a_layer_that_is_adapted_in_the_scope_trains(strategy, kind):
    """As the same model does outside."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            kind.utils.set_random_seed(7)
            normal = kind.layers.Normalization()
            normal.adapt(NUMBERS)
            layers = [kind.Input((6,)), normal, kind.layers.Dense(1)]
            model = kind.Sequential(layers)
            model.compile("adam", "mse", steps_per_execution=4)
        labels = NUMBERS[:, :1]
        history = model.fit(NUMBERS, labels, 8, epochs=2, verbose=0, shuffle=False)
        found.append(history.history["loss"])

    assert np.allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("kind", [keras, tf_keras], ids=["keras3", "tf_keras"])
def test_an_error_of_adapting_reaches_the_caller(strategy, kind):
    """With the layer's own message."""
    with strategy.scope():
        layer = kind.layers.Discretization([0.0, 1.0])
        with pytest.raises(ValueError, match="Cannot adapt a Discretization layer"):
            layer.adapt(NUMBERS)
