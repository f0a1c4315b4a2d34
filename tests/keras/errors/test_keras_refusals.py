"""What a model of an IPUStrategy refuses, before anything is compiled."""

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy


@pytest.fixture(scope="module")
def strategy():
    models.configure(1)
    return IPUStrategy()


@pytest.fixture(scope="module")
def model(strategy):
    with strategy.scope():
        return models.compiled(models.dense, steps_per_execution=4)


def programs(model):
    return model.__dict__["_ipufeed"].programs


x, y = models.arrays()


def generator():
    yield x[:8], y[:8]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return x[: 8 - index], y[: 8 - index]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: {"x": x[:60], "y": y[:60], "batch_size": 8}, "has a partial batch"),
        (
            lambda: {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(8)},
            r"shape \(None, 6\) which is not fully .*drop_remainder.*tf.ensure_shape",
        ),
        (
            lambda: {
                "x": tf.data.Dataset.from_tensor_slices(
                    tf.ragged.constant([[1.0, 2.0], [3.0]] * 8)
                ).batch(8, drop_remainder=True)
            },
            "Component 0 of the data is a RaggedTensor .*to_tensor",
        ),
        (lambda: {"x": models.dataset().repeat()}, "Could not infer the size"),
        (lambda: {"x": models.dataset().take(6)}, r"\(4\) must be a divisor .* \(6\)"),
        (
            lambda: {"x": models.dataset(), "steps_per_epoch": 8, "epochs": 3},
            "does not have enough data",
        ),
        (lambda: {"x": generator()}, "infer the size of the data"),
        (lambda: {"x": Batches()}, r"a partial batch.*the size 7, the first one 8"),
    ],
)
def test_data_that_a_program_cannot_take(model, data, words):
    """The error says which edit helps."""
    with pytest.raises(ValueError, match=words):
        model.fit(**data(), verbose=0, shuffle=False)
    assert programs(model) == {}


def test_what_is_not_compiled_or_runs_eagerly(strategy):
    """A program is compiled in any case."""
    with strategy.scope():
        model = models.dense()
        with pytest.raises(ValueError, match="must call `compile"):
            model.fit(models.dataset(), verbose=0)
        model.compile("sgd", "mse", run_eagerly=True)
        with pytest.raises(RuntimeError, match="Keras models cannot run eagerly when"):
            model.fit(models.dataset(), verbose=0, shuffle=False)
        model.compile("sgd", "mse")
        tf.config.run_functions_eagerly(True)
        try:
            with pytest.raises(RuntimeError, match=r"run_functions_eagerly\(True\)"):
                model.fit(models.dataset(), verbose=0, shuffle=False)
        finally:
            tf.config.run_functions_eagerly(False)
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            model.fit(models.dataset(), nonsense=1)


def test_functions_that_a_subclass_must_and_must_not_have(strategy):
    """`call`; not those that make the functions of stock Keras."""

    class Empty(keras.Model):
        pass

    class Own(keras.Model):
        def call(self, inputs):
            return inputs

        def make_train_function(self, force=False):
            return None

    with strategy.scope():
        for kind, error, words in (
            (Empty, NotImplementedError, "The function `call` for the model empty"),
            (
                Own,
                RuntimeError,
                r"`make_train_function` for the model own\w* .*overridden",
            ),
        ):
            model = kind()
            model.compile("sgd", "mse")
            with pytest.raises(error, match=words):
                model.fit(models.dataset(), verbose=0)


def test_what_was_made_elsewhere_is_adopted(strategy):
    """The optimizer and the metrics: so that compile may stand outside of the scope."""
    with strategy.scope():
        model = models.dense()
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    model.compile(keras.optimizers.Adam(), models.cross_entropy(), metrics=[accuracy])
    history = model.fit(models.dataset().take(1), verbose=0, shuffle=False)

    assert np.isfinite(history.history["loss"]).all()
    made = [*model.optimizer.variables, *accuracy.variables]
    assert all(each.value.device.endswith("IPU:0") for each in made)
