"""Fixtures of tests that run with either Keras on one IPU."""

import keras
import keras_models
import pytest
import tf_keras

from ipufeed.device.program.strategy import IPUStrategy


@pytest.fixture(scope="module")
def strategy():
    """An IPUStrategy of one IPU, configured for the module."""
    keras_models.configure(1)
    return IPUStrategy()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(keras, id="keras3"),
        pytest.param(tf_keras, id="tf_keras", marks=pytest.mark.long),
    ],
    name="kind",
)
def kinds(request):
    """Keras 3, and tf_keras."""
    return request.param
