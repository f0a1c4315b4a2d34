"""Quantization and LoRA of Keras 3, in the scope and outside, equal stock Keras's."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest

pytestmark = pytest.mark.long

NO_SCOPE = contextlib.nullcontext


def made(scope):
    keras.utils.set_random_seed(3)
    with scope():
        model = models.dense()
        model.compile("adam", models.cross_entropy(), jit_compile=True)
    return model


@pytest.mark.filterwarnings("ignore:Layer InputLayer")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_a_quantized_model_predicts(strategy, inside, before):
    """Also after its program was built for weights that were not quantized."""
    x, y = models.arrays()
    found = []
    for scope in (NO_SCOPE, strategy.scope):
        model = made(scope)
        if before:
            model.predict(x, batch_size=8, verbose=0)
            model.evaluate(x, y, batch_size=8, verbose=0)
        with scope() if inside else NO_SCOPE():
            model.quantize("int8")
        predicted = model.predict(x, batch_size=8, verbose=0)
        loss = model.evaluate(x, y, batch_size=8, verbose=0)
        found.append((predicted, loss))

    (stock, stock_loss), (ours, loss) = found
    np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
    assert loss == pytest.approx(stock_loss, rel=1e-5)


@pytest.mark.parametrize("inside", [True, False])
def test_lora_trains(strategy, inside):
    """Its weights are on the device of the layer's."""
    x, y = models.arrays()
    found = []
    for scope in (NO_SCOPE, strategy.scope):
        model = made(scope)
        model.fit(x, y, batch_size=8, verbose=0, shuffle=False)
        with scope() if inside else NO_SCOPE():
            model.layers[0].enable_lora(2)
            model.compile("adam", models.cross_entropy(), jit_compile=True)
        history = model.fit(x, y, batch_size=8, verbose=0, shuffle=False).history
        found.append([history["loss"], *model.get_weights()])

    for stock, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-4, 1e-6)
