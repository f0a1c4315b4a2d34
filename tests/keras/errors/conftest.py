"""The model of tests that give a call what it refuses."""

import pytest


@pytest.fixture(scope="module")
def model(strategy, kind):
    with strategy.scope():
        made = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made
