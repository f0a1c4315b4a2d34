"""Models that were made outside of the scope are those of stock Keras, in it too."""

import contextlib

import keras_models as models
import numpy as np
import pytest

pytestmark = pytest.mark.long


def made(kind):
    kind.utils.set_random_seed(3)
    return kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])


@pytest.mark.parametrize("optimizer", ["sgd", None])
def test_it_is_not_compiled_in_the_scope(strategy, kind, optimizer):
    """Its optimizer would be on the IPU; the error names the cause and the ways out."""
    model = made(kind)
    words = "was made outside of the IPUStrategy's scope, and `compile` is called in it"
    with strategy.scope():
        optimizer = optimizer or kind.optimizers.Adam()
        with pytest.raises(ValueError, match=words):
            model.compile(optimizer, "mse")


@pytest.mark.parametrize("builds", [True, False])
def test_its_calls_in_the_scope_run_on_the_host(strategy, kind, caplog, builds):
    """Each of them, also those that build the model; one warning; stock Keras's numbers."""
    x, y = models.arrays()
    found = []
    for scope in (contextlib.nullcontext, strategy.scope):
        model = made(kind)
        if builds:
            kind.utils.set_random_seed(3)
            model = kind.Sequential([kind.layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"], jit_compile=True)
        with scope():
            results = list(model.fit(x, y, 8, shuffle=False, verbose=0).history.items())
            results += model.evaluate(x, y, 8, verbose=0)
            results.append(model.predict(x, 8, verbose=0))
            results += model.train_on_batch(x[:8], y[:8])
            results += model.test_on_batch(x[:8], y[:8])
            results.append(model.predict_on_batch(x[:8]))
        assert all(
            "CPU" in getattr(each, "_value", each).device for each in model.weights
        )
        found.append([*dict(results[:2]).values(), *results[2:], *model.get_weights()])

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
    assert caplog.text.count("`fit` runs on the host. Make the model in the scope") == 1
    assert caplog.text.count("runs on the host") == 1


def test_a_callback_asks_a_model_of_the_host(strategy, kind):
    """While a model of the IPU is trained; the scope is as before after that."""
    x, y = models.arrays()
    host = made(kind)
    with strategy.scope():
        model = made(kind)
        model.compile("sgd", "mse")
    seen = []

    class Ask(kind.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(host.predict(x, batch_size=8, verbose=0))

    model.fit(x, y, 8, epochs=2, shuffle=False, verbose=0, callbacks=[Ask()])

    np.testing.assert_allclose(seen[1], host.predict(x, batch_size=8, verbose=0), 1e-5)
    with strategy.scope():
        weights = kind.layers.Dense(1)
        weights.build((None, 6))
    assert "IPU:0" in getattr(weights.kernel, "_value", weights.kernel).device


def test_layers_of_the_ipu_run_op_by_op(strategy, kind, caplog):
    """In a model that is made outside of them: in the scope and outside."""
    x, _ = models.arrays()
    with strategy.scope():
        model = made(kind)
    part = kind.Sequential([kind.Input((6,)), *model.layers])
    with strategy.scope():
        inside = part.predict(x, batch_size=8, verbose=0)

    np.testing.assert_allclose(inside, np.asarray(model(x)), 1e-5, 1e-6)
    np.testing.assert_allclose(part.predict(x, batch_size=8, verbose=0), inside, 1e-5)
