"""Several calls take their batches from one generator, and none is lost."""

import itertools

import numpy as np
import pytest


@pytest.fixture(scope="module")
def model(strategy, kind):
    """Its loss is the number of the batch; training does not change it."""
    with strategy.scope():
        ones = kind.layers.Dense(1, kernel_initializer="ones")
        made = kind.Sequential([kind.Input((1,)), ones])
        made.compile(kind.optimizers.SGD(0.0), "mae", steps_per_execution=2)
    return made


def numbered(read):
    for i in itertools.count():
        read.append(i)
        yield np.full((2, 1), i, np.float32), np.zeros((2, 1), np.float32)


def test_calls_take_what_they_need(model):
    """The infeed reads ahead: batches of the next call must not be in its queue."""
    read = []
    data = numbered(read)

    losses = model.fit(data, steps_per_epoch=4, epochs=2, verbose=0, shuffle=False)
    assert losses.history["loss"] == [1.5, 5.5]
    assert model.evaluate(data, steps=4, verbose=0) == 9.5
    found = model.predict(data, steps=2, verbose=0)
    assert found[:, 0].tolist() == [12, 12, 13, 13]
    losses = model.fit(data, steps_per_epoch=2, verbose=0, shuffle=False)
    assert losses.history["loss"] == [14.5]
    assert read == list(range(16))


def test_a_generator_of_just_enough_batches_serves_several_calls(model):
    data = itertools.islice(numbered([]), 12)
    for first in (0, 4, 8):
        losses = model.fit(
            (each for each in data), steps_per_epoch=4, verbose=0, shuffle=False
        )
        assert losses.history["loss"] == [first + 1.5]
