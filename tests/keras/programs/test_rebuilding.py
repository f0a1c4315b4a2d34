"""Programs are built again when Keras would make its functions again."""

import contextlib

import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.long

KEPT = contextlib.nullcontext


def doubling(kind):
    """A functional model whose step has a factor that is a Python number."""

    class Own(kind.Model):
        factor = 1.0

        train_step = models.own_train_step

        def test_step(self, data):
            return {"own": self.factor * tf.reduce_mean(self(data[0]))}

        def predict_step(self, data):
            x = data[0] if isinstance(data, tuple) else data
            return self.factor * self(x)

    inputs = kind.Input((models.FEATURES,))
    return Own(inputs, kind.layers.Dense(1)(inputs))


def force(model, name):
    getattr(model, f"make_{name}_function")(force=True)


def unset(model, name):
    setattr(model, f"{name}_function", None)


@pytest.mark.parametrize("renew", [force, unset])
def test_programs_are_rebuilt_as_functions_are(strategy, kind, renew):
    """Each call's, by both ways; the numbers are those of stock Keras."""
    x, y = models.arrays()
    found = []
    for scope in (KEPT, strategy.scope):
        kind.utils.set_random_seed(3)
        with scope():
            model = doubling(kind)
            model.compile(kind.optimizers.SGD(0.01), jit_compile=True)
        logs = []
        for factor in (1.0, 10.0, 3.0):
            model.factor = factor
            if factor != 1.0:
                for name in ("train", "test", "predict"):
                    renew(model, name)
            model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
            logs += [*model.get_weights()]
            logs.append(model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True))
            logs.append(model.predict(x, batch_size=8, verbose=0))
        found.append(logs)

    for stock, ours in zip(*found, strict=True):
        if isinstance(stock, dict):
            assert ours["own"] == pytest.approx(stock["own"], rel=1e-5)
        else:
            np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)


def test_a_callback_renews_the_function(strategy, kind):
    """From the next epoch on; a function that is not renewed keeps its program."""
    x, y = models.arrays()
    with strategy.scope():
        model = doubling(kind)
        model.compile(kind.optimizers.SGD(0.0))
    losses = []

    class Renew(kind.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            losses.append(logs["own"])
            model.factor = 2.0 ** (epoch + 1)
            if epoch != 0:
                model.make_train_function(force=True)

    model.fit(x, y, 8, epochs=4, shuffle=False, verbose=0, callbacks=[Renew()])

    np.testing.assert_allclose(np.divide(losses, losses[0]), [1, 1, 4, 8], 1e-5)


def test_another_optimizer_is_used(strategy, kind):
    """It is an attribute of the model, and the function is unset."""
    x, y = models.arrays()
    found = []
    for scope in (KEPT, strategy.scope):
        kind.utils.set_random_seed(3)
        with scope():
            model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
            model.compile(kind.optimizers.SGD(0.01), "mse", jit_compile=True)
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        with scope():
            model.optimizer = kind.optimizers.Adam(0.1)
        model.train_function = None
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        found.append(model.get_weights())

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)


def test_a_function_that_is_kept_keeps_its_program(strategy, kind):
    """Calls of a batch use it, too; `compile` forgets both."""
    x, y = models.arrays()
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile(kind.optimizers.SGD(0.01), "mse")
    programs = []
    for _ in range(2):
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        model.train_on_batch(x[:8], y[:8])
        model.make_train_function()
        programs.append(model.__dict__["_ipufeed"].programs["fit"])
    model.compile(kind.optimizers.SGD(0.01), "mse")

    assert programs[0] is programs[1]
    assert model.__dict__["_ipufeed"].programs == {}
