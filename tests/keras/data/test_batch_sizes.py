"""The calls of one batch take batches of several sizes, as stock Keras does."""

import contextlib

import keras_models as models
import numpy as np


def test_batches_of_several_sizes(strategy, kind):
    """Also again of the first size; numbers are those of stock Keras."""
    x, y = models.arrays()
    found = []
    for scope in (contextlib.nullcontext, strategy.scope):
        kind.utils.set_random_seed(3)
        with scope():
            model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
            model.compile("sgd", "mse", metrics=["mae"], jit_compile=True)
        results = []
        for call in (model.train_on_batch, model.test_on_batch):
            results += [call(x[:size], y[:size]) for size in (8, 5, 8, 3)]
        results += [model.predict_on_batch(x[:size]) for size in (8, 5, 8, 3)]
        found.append(results + model.get_weights())

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
