"""Calls on a shuffled dataset have the orders that they have in stock Keras."""

import functools

import keras_models as models
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    models.configure(1)


@pytest.mark.long
@pytest.mark.parametrize("inside", [False, True])
def test_each_call_has_the_order_of_stock_keras(inside):
    """Each its own, also where the dataset is made in the strategy's scope."""

    def make():
        tf.random.set_seed(5)
        data = tf.data.Dataset.from_tensor_slices(models.arrays()).shuffle(64, seed=1)
        return data.batch(models.BATCH, drop_remainder=True)

    def results(model, data):
        score = [model.evaluate(data, steps=2, verbose=0) for _ in range(3)]
        model.set_weights([0.5 + 0.0 * each for each in model.get_weights()])
        rows = [model.predict(data, steps=2, verbose=0) for _ in range(3)]
        fit = functools.partial(
            model.fit, data, epochs=2, validation_data=data, shuffle=False, verbose=0
        )
        history = [
            fit(**steps).history
            for steps in ({}, {"steps_per_epoch": 2, "validation_steps": 2})
        ]
        return score, rows, history

    stock = results(models.compiled(models.dense, "momentum", jit_compile=True), make())
    strategy = IPUStrategy()
    with strategy.scope():
        model = models.compiled(models.dense, "momentum", steps_per_execution=2)
        data = make() if inside else None
    ours = results(model, make() if data is None else data)

    assert len({str(each) for each in stock[0]}) == 3
    for one, other in zip(stock, ours, strict=True):
        assert models.furthest(models.numbers(one), models.numbers(other)) <= 1e-5
