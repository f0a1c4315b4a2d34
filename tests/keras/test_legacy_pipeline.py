"""Pipelined models of tf_keras equal models that are not: by list, scope and subclass."""

import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import PipelineStage

pytestmark = pytest.mark.long

CLASSES, dataset = keras_models.CLASSES, keras_models.dataset
layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    keras_models.configure(2)
    return IPUStrategy()


def no_stage(k):
    return tf.name_scope(f"unused_{k}")


class Block(layers.Layer):
    """Has no `training` argument, and a layer that needs one."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(8, "relu")
        self.normal = layers.BatchNormalization(momentum=0.5)

    def call(self, inputs):
        return self.normal(self.dense(inputs))


def sequential():
    first = layers.Dense(8, "relu", kernel_regularizer="l2", input_shape=(6,))
    return keras.Sequential([first, Block(), layers.Dense(CLASSES)], name="three")


def by_list():
    model = sequential()
    model.set_pipeline_stage_assignment([0, 0, 1])
    return model


def functional(stage=no_stage):
    """A nested model in inference, `x + y`, a mask and a layer of both stages."""
    nested_in = keras.Input((8,))
    nested = keras.Sequential([layers.Dense(8), layers.BatchNormalization()])
    shared = layers.Dense(8, activity_regularizer="l2", kernel_regularizer="l2")
    inputs = keras.Input((6,))
    with stage(0):
        x = layers.Dense(8, "relu")(inputs)
        z = nested(shared(shared(x)) + x, training=False)
        masked = layers.Masking(0.0)(layers.Reshape([2, 4])(x))
    with stage(1):
        y = layers.LSTM(8)(masked)
        outputs = layers.Dense(CLASSES)(shared(z) * 0.5 + y)
    del nested_in
    return keras.Model(inputs, outputs, name="skip")


class Subclass(keras.Model):
    def __init__(self, stage=no_stage):
        super().__init__(name="own")
        self.stage = stage
        self.one = layers.Dense(8, activation="relu", name="one")
        self.block = Block()
        self.two = layers.Dense(CLASSES, name="two")

    def call(self, inputs, training=False):
        with self.stage(0):
            x = self.block(self.one(inputs))
        with self.stage(1):
            return self.two(tf.nn.relu(x))


def compiled(make, optimizer, **keywords):
    keras.utils.set_random_seed(7)
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **keywords)
    return model


def accumulated(model, data, epochs):
    """Trains with plain TensorFlow: the mean of the gradients of four mini-batches."""
    for _ in range(epochs):
        sums = None
        for step, (x, y) in enumerate(data):
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x, y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            if step % 4 == 0:
                sums = [tf.zeros_like(each) for each in gradients]
            sums = [a + b / 4 for a, b in zip(sums, gradients, strict=True)]
            if step % 4 == 3:
                pairs = zip(sums, model.trainable_variables, strict=True)
                model.optimizer.apply_gradients(pairs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("pipelined", "plain"),
    [
        pytest.param(by_list, sequential, id="list"),
        pytest.param(
            lambda: functional(PipelineStage),
            functional,
            id="functional",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            lambda: Subclass(PipelineStage),
            Subclass,
            id="subclass",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_pipeline_equals_the_model_that_is_not_split(strategy, pipelined, plain):
    """Weights after two epochs of accumulation 4, evaluate and predict."""
    with strategy.scope():
        model = compiled(pipelined, keras.optimizers.Adam(0.01), steps_per_execution=8)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4,
            gradient_accumulation_reduction_method="mean",
        )
    history = model.fit(dataset(8), epochs=2, verbose=0)
    stock = compiled(plain, keras.optimizers.Adam(0.01))
    accumulated(stock, dataset(8), 2)

    assert model.__dict__["_ipufeed"].pipeline.stages == 2
    assert set(history.history) == {"loss", "accuracy"}
    assert keras_models.furthest(stock.get_weights(), model.get_weights()) < 1e-5
    assert int(model.optimizer.iterations.numpy()) == 4
    want = stock.evaluate(dataset(8), verbose=0)
    assert model.evaluate(dataset(8), verbose=0) == pytest.approx(want, rel=1e-4)
    predicted = model.predict(dataset(8), verbose=0)
    assert np.allclose(predicted, stock.predict(dataset(8), verbose=0), atol=1e-5)


class Branching(layers.Layer):
    def call(self, inputs):
        if tf.reduce_sum(inputs) > 0.0:
            inputs = -inputs
        for _ in tf.range(3):
            inputs = 0.9 * inputs
        return inputs


def branching_loss(labels, outputs):
    if tf.reduce_mean(outputs) > 0.0:
        outputs = 2.0 * outputs
    return tf.reduce_mean(tf.square(outputs - tf.one_hot(labels, CLASSES)), -1)


def test_autograph_converts_layers_and_losses(strategy):
    """Of a model and of the stages of one, as tf_keras's own functions do."""

    def made():
        first = layers.Dense(8, input_shape=(6,))
        model = keras.Sequential([first, Branching(), layers.Dense(CLASSES)])
        model.compile(keras.optimizers.SGD(0.1), branching_loss, steps_per_execution=8)
        return model

    stock = made()
    with strategy.scope():
        ours, piped = made(), made()
    piped.set_pipeline_stage_assignment([0, 1, 1])
    ours.set_weights(stock.get_weights())
    keras_models.configure(1)
    found, want = (
        model.fit(dataset(), epochs=2, verbose=0, shuffle=False).history["loss"]
        for model in (ours, stock)
    )
    keras_models.configure(2)
    piped.set_weights(stock.get_weights())

    assert found == pytest.approx(want, rel=1e-5)
    assert piped.evaluate(dataset(), verbose=0) == pytest.approx(
        stock.evaluate(dataset(), verbose=0), rel=1e-5
    )


def test_an_optimizer_that_does_not_cast_gradients_is_refused(strategy):
    """Sums of float32 for weights of float16: the error names the option."""
    with strategy.scope():
        inputs = keras.Input([2], dtype="float16", batch_size=1)
        with PipelineStage(0):
            x = layers.Dense(2, dtype="float16")(inputs)
        with PipelineStage(1):
            x = layers.Dense(1, dtype="float16")(x)
        model = keras.Model(inputs, x)
        model.compile(keras.optimizers.SGD(0.125), "mse", steps_per_execution=4)
    model.set_pipelining_options(4, gradient_accumulation_dtype=tf.float32)
    x, y = np.ones([4, 2], "float16"), np.ones([4, 1], "float16")
    message = r"float32, from `gradient_accumulation_dtype`, and cannot .*float16"

    with pytest.raises(TypeError, match=message):
        model.fit(x, y, batch_size=1, verbose=0)
