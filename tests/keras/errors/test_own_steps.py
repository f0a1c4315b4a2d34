"""Steps of the user's own, and what they can and cannot be combined with."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest


def own_step(kind, scale=1.0):
    """Returns a class whose step has another loss than the compiled one."""

    class Own(kind.Model):
        factor = scale

        train_step = models.own_train_step

    return Own


def make(kind, own, strategy, loss="mse", **arguments):
    with strategy.scope():
        kind.utils.set_random_seed(3)
        inputs = kind.Input((models.FEATURES,))
        model = own(inputs, kind.layers.Dense(1)(inputs))
        model.compile(kind.optimizers.SGD(0.01), loss, **arguments)
    return model


@pytest.mark.parametrize("loss", ["mse", None])
def test_an_own_step_is_not_accumulated(strategy, kind, loss):
    """It would be replaced with Keras's own; the error says what to do."""
    model = make(kind, own_step(kind), strategy, loss, steps_per_execution=4)
    model.set_gradient_accumulation_options(4)
    words = r"`train_step` for the model \w+ has been overridden.* is 4\).*options\(1\)"
    with pytest.raises(RuntimeError, match=words):
        model.fit(models.dataset(), verbose=0, shuffle=False)

    assert model.__dict__["_ipufeed"].programs == {}
    model.set_gradient_accumulation_options(1)
    history = model.fit(models.dataset(), verbose=0, shuffle=False).history
    assert "own" in history


def test_a_step_without_results_is_refused(strategy, kind):
    """A program has to enqueue something; the error names the step."""

    class Silent(kind.Model):
        def train_step(self, data):
            return {}

    model = make(kind, Silent, strategy, steps_per_execution=4)
    with pytest.raises(
        ValueError, match=r"`Silent.train_step` returned {}: a step must"
    ):
        model.fit(models.dataset(), verbose=0, shuffle=False)


def test_an_optimizer_of_keras3_accumulates_in_an_own_step(strategy):
    """The remedy that the error names: weights are those of stock Keras."""
    found = []
    for scope in (contextlib.nullcontext, strategy.scope):
        keras.utils.set_random_seed(3)
        with scope():
            inputs = keras.Input((models.FEATURES,))
            model = own_step(keras)(inputs, keras.layers.Dense(1)(inputs))
            sgd = keras.optimizers.SGD(0.01, gradient_accumulation_steps=4)
            model.compile(sgd, jit_compile=True, steps_per_execution=8)
        model.fit(models.dataset(), verbose=0, shuffle=False)
        found.append(model.get_weights())

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
