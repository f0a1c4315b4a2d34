"""Layers of a pipeline's stage are called as layers in the call of a model are."""

import keras
import keras_models as models
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import PipelineStage

layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    models.configure(2)
    return IPUStrategy()


class Block(layers.Layer):
    """Has no `training` argument, and layers that need one."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(8, "relu")
        self.normal = layers.BatchNormalization(momentum=0.5)

    def call(self, inputs):
        return self.normal(self.dense(inputs))


def with_shared_layers(stage=lambda k: tf.name_scope("unused")):
    """A layer with losses that is called twice in a stage, and once in another."""
    inputs = keras.Input((models.FEATURES,))
    shared = layers.Dense(8, activity_regularizer="l2", kernel_regularizer="l2")
    with stage(0):
        x = layers.Dense(8)(inputs)
        x = Block()(shared(shared(x)))
    with stage(1):
        outputs = layers.Dense(models.CLASSES)(shared(x))
    return keras.Model(inputs, outputs, name="shared")


def test_layers_are_called_as_in_a_model(strategy):
    """`training` reaches layers of layers; each call's losses count, a regularizer once."""
    with strategy.scope():
        model = models.compiled(
            lambda: with_shared_layers(PipelineStage), "sgd", steps_per_execution=4
        )
        model.set_pipelining_options(4, gradient_accumulation_reduction_method="mean")
    data = models.dataset(4).take(4)
    history = model.fit(data, verbose=0, shuffle=False).history
    stock = models.compiled(with_shared_layers, "sgd", jit_compile=False)
    stock.optimizer.gradient_accumulation_steps = 4
    plain = stock.fit(data, verbose=0, shuffle=False).history

    assert models.furthest(stock.get_weights(), model.get_weights()) < 1e-5
    assert history["loss"] == pytest.approx(plain["loss"], rel=1e-5)
