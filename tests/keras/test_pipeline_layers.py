"""Layers of a pipeline's stage are called as layers in the call of a model are."""

import keras
import keras_models as models
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import PipelineStage

pytestmark = pytest.mark.long

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


class OfItsOwn(keras.Model):
    """Its `call` cannot be followed: it asks for values of its inputs' batch size."""

    def __init__(self, first=None):
        super().__init__()
        with tf.name_scope("unused") if first is None else first:
            self.dense = layers.Dense(models.CLASSES)

    def call(self, inputs):
        return self.dense(tf.reshape(inputs, [inputs.shape[0], models.FEATURES]))


def test_a_subclass_without_stages_trains_next_to_a_pipelined_model(strategy):
    """A PipelineStage was entered in this process; its own layers have none."""
    with strategy.scope():
        with PipelineStage(0):
            layers.Dense(1)
        model = models.compiled(OfItsOwn, "sgd", steps_per_execution=4)
        staged = models.compiled(
            lambda: OfItsOwn(PipelineStage(0)), "sgd", steps_per_execution=4
        )
    data = models.dataset(4).take(4)
    assert len(model.fit(data, verbose=0, shuffle=False).history["loss"]) == 1
    with pytest.raises(ValueError, match="which a pipeline needs"):
        staged.fit(data, verbose=0, shuffle=False)


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
