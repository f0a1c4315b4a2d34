"""Weight updates of several IPUs: gradients are clipped as sums, constraints hold."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    models.configure(2)
    return IPUStrategy()


@pytest.fixture(scope="module")
def data():
    draw = np.random.default_rng(0).normal
    return draw(size=(64, 8)).astype(np.float32), draw(size=(64, 1)).astype(np.float32)


def weights_after(data, scope, first, optimizer, *, times=1.0, stages=0, batch=16):
    """Returns the weights after an epoch of a model with the layer `first`."""
    keras.utils.set_random_seed(1)

    def loss(y, prediction):
        return times * tf.reduce_mean(tf.square(y - prediction), -1)

    with scope:
        model = keras.Sequential([keras.Input((8,)), first(), layers.Dense(1)])
        model.compile(optimizer, loss, steps_per_execution=4, jit_compile=True)
    if stages:
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(4, gradient_accumulation_reduction_method="mean")
    model.fit(*data, batch_size=batch, shuffle=False, verbose=0)
    return model.get_weights()


def check_near(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "clip", [{"clipnorm": 0.3}, {"global_clipnorm": 0.3}, {"clipvalue": 0.1}], ids=str
)
def test_replicas_clip_as_the_larger_batch_does(strategy, data, clip):
    def run(scope, **how):
        optimizer = keras.optimizers.SGD(0.05, **clip)
        return weights_after(data, scope, lambda: layers.Dense(4), optimizer, **how)

    stock = run(contextlib.nullcontext(), times=2.0)
    check_near(run(strategy.scope(), batch=8), stock)


@pytest.mark.parametrize(
    "constraint",
    [keras.constraints.NonNeg(), keras.constraints.MaxNorm(0.5)],
    ids=["nonneg", "maxnorm"],
)
def test_constraints_hold_in_a_pipeline(strategy, data, constraint):
    def first():
        return layers.Dense(8, kernel_constraint=constraint)

    stock = weights_after(data, contextlib.nullcontext(), first, "sgd")
    found = weights_after(data, strategy.scope(), first, "sgd", stages=2, batch=4)
    check_near(found, stock)


class Encoded(layers.Layer):
    """Holds eager tensors, small and large, and a regularizer with one."""

    def __init__(self):
        super().__init__()
        self.offset = tf.constant(0.5)
        self.encoding = tf.constant(np.linspace(0, 1, 20 * 8, dtype=np.float32))
        self.dense = layers.Dense(8, kernel_regularizer=keras.regularizers.L1(0.1))

    def call(self, inputs):
        return self.dense(inputs * self.offset + self.encoding[-8:])


def test_stages_use_the_tensors_that_a_layer_holds(strategy, data):
    stock = weights_after(data, contextlib.nullcontext(), Encoded, "sgd")
    found = weights_after(data, strategy.scope(), Encoded, "sgd", stages=2, batch=4)
    check_near(found, stock)
