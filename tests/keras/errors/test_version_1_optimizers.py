"""Optimizers of TensorFlow 1 in `compile`: refused by Keras 3, and wrapped by tf_keras."""

import contextlib

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer

train = tf.compat.v1.train
X = keras_models.arrays()[0]
Y = X[:, :1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: train.GradientDescentOptimizer(0.1),
            "GradientDescentOptimizer, .*Use `keras.optimizers.SGD`, or .*tf_keras",
        ),
        (
            lambda: train.MomentumOptimizer(0.1, 0.9),
            "MomentumOptimizer, .*Use `keras.optimizers.SGD` with `momentum`, or",
        ),
        (
            lambda: CrossReplicaOptimizer(train.AdamOptimizer(0.1)),
            "CrossReplicaOptimizer, .*the wrapper of this name in `ipufeed.keras.optim",
        ),
    ],
)
def test_keras3_names_its_own(strategy, make, words):
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        with pytest.raises(TypeError, match=f"`optimizer` is a {words}"):
            model.compile(make(), "mse")


@pytest.mark.long
def test_tf_keras_trains_with_them(strategy):
    """To the weights of the host."""
    found = []
    for scope in (contextlib.nullcontext, strategy.scope):
        tf_keras.utils.set_random_seed(3)
        with scope():
            layers = [tf_keras.Input((6,)), tf_keras.layers.Dense(1)]
            model = tf_keras.Sequential(layers)
            model.compile(train.AdamOptimizer(0.1), "mse")
        model.fit(X, Y, 8, epochs=2, verbose=0, shuffle=False)
        found.append(model.get_weights())

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
