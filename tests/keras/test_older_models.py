"""ipu.keras.Sequential, PipelineSequential and PipelineModel of SDK 2.1."""

import itertools

import keras
import keras_models as models
import numpy as np
import pytest

import ipufeed.keras as ipu_keras
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras.older.counts import Counts, count

pytestmark = pytest.mark.long

layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    models.configure(2)
    return IPUStrategy()


def stages():
    return [
        [layers.Dense(8, activation="relu"), layers.Dense(8, activation="relu")],
        [layers.Dense(models.CLASSES)],
    ]


def flat():
    return list(itertools.chain.from_iterable(stages()))


def of_layers():
    return ipu_keras.Sequential(flat(), gradient_accumulation_count=4)


def of_stages():
    return ipu_keras.PipelineSequential(stages(), gradient_accumulation_count=4)


def of_calls():
    x = inputs = keras.Input((models.FEATURES,))
    for number, stage in enumerate(stages()):
        with ipu_keras.PipelineStage(number):
            for layer in stage:
                x = layer(x)
    return ipu_keras.PipelineModel(inputs, x, gradient_accumulation_count=4)


@pytest.mark.parametrize(
    ("make", "batches"), [(of_layers, 8), (of_stages, 4), (of_calls, 4)]
)
def test_the_models_of_an_older_release_train(strategy, make, batches):
    """Two steps of four batches: two replicas make one update of them, a pipeline two."""
    with strategy.scope():
        model = models.compiled(make, metrics=["accuracy"])
    data = models.dataset(8).repeat()
    history = model.fit(
        data, epochs=2, steps_per_epoch=2, steps_per_run=2, verbose=0, shuffle=False
    )

    def plain():
        return keras.Sequential([keras.Input((models.FEATURES,)), *flat()])

    stock = models.compiled(plain)
    stock.optimizer.gradient_accumulation_steps = batches
    stock.optimizer.learning_rate = 0.05 * batches  # of a mean; theirs is a sum
    stock.fit(data, epochs=2, steps_per_epoch=8, verbose=0, shuffle=False)
    assert models.furthest(stock.get_weights(), model.get_weights()) < 1e-5
    assert set(history.history) == {"loss", "accuracy"}
    assert history.epoch == [0, 1]
    found = model.predict(models.dataset(8), verbose=0)
    assert np.allclose(found, stock.predict(models.dataset(8), verbose=0), atol=1e-5)


def test_what_they_refuse_names_the_remedy(strategy):
    """Calls, save, and arguments that only models of Keras have."""
    with strategy.scope():
        model = of_layers()
        with pytest.warns(FutureWarning, match="is now `gradient_accumulation_count`"):
            ipu_keras.Sequential([layers.Dense(1)], accumulation_count=2)
        with pytest.raises(ValueError, match="a non-empty list of stages"):
            ipu_keras.PipelineSequential([layers.Dense(1)], 4)
        with pytest.raises(ValueError, match="needs `gradient_accumulation_count`"):
            ipu_keras.PipelineSequential(stages())
    with pytest.raises(ValueError, match="Sequential can only be called through"):
        model(np.zeros([8, models.FEATURES]))
    with pytest.raises(NotImplementedError, match="`save_weights` does"):
        model.save("model.keras")
    with pytest.raises(NotImplementedError, match="to fit\\(\\): validation_split"):
        model.fit(models.dataset(), validation_split=0.1)


def test_steps_are_weight_updates_of_all_replicas():
    """Of 35 batches two replicas can use 32, four at a time."""
    with pytest.warns(UserWarning, match="The remaining 3 batches are dropped"):
        assert count(35, None, None, 4, 2) == Counts(16, 16, 3)
    assert count(None, 8, 2, 4, 2) == Counts(16, 4)
    for arguments, message in (
        ((None, None, None, 4, 2), "must be given"),
        ((7, None, None, 4, 2), "The data have 7 batches, and one step of 2 replicas"),
        ((None, 3, None, 4, 2), r"steps of an epoch \(3\) must be a multiple"),
        ((None, 8, 3, 4, 1), r"`steps_per_run` \(3\) must divide"),
        ((None, 8, 0, 4, 1), "must be a positive int, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            count(*arguments)
