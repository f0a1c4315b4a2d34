"""Steps of the user's own, and what they can and cannot be combined with."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf


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


def test_logs_have_the_order_of_stock_keras(strategy, kind):
    """In callbacks of batches and epochs, and in the History, of a step's nested logs."""

    class Own(kind.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                found = self(x, training=True)
                loss = tf.reduce_mean(tf.square(tf.cast(y, found.dtype) - found))
            weights = self.trainable_variables
            gradients = tape.gradient(loss, weights)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return {"z": loss, "nested": {"y": loss + 1, "a": loss + 2}, "b": loss}

    class Order(kind.callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            self.batch = list(logs)

        def on_epoch_end(self, epoch, logs):
            self.epoch = list(logs)

    orders = []
    for each in (contextlib.nullcontext(), strategy):
        with contextlib.ExitStack() as stack:
            if each is strategy:
                model = make(kind, Own, strategy, steps_per_execution=4)
            else:
                stack.enter_context(each)
                inputs = kind.Input((models.FEATURES,))
                model = Own(inputs, kind.layers.Dense(1)(inputs))
                model.compile(kind.optimizers.SGD(0.01), "mse")
            order = Order()
            data = models.dataset()
            model.fit(data, verbose=0, shuffle=False, callbacks=[order])
        orders.append([order.batch, order.epoch, list(model.history.history)])
    assert orders[0] == orders[1]
