"""What tf_keras has without a strategy, or for some of them, works in an IPU's scope."""

import contextlib

import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

layers = keras.layers


class OwnStep(keras.Model):
    """Calls a loss that has the default reduction."""

    own_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.own_loss(y, self(x, training=True))
        self.optimizer.minimize(loss, self.trainable_variables, tape)
        return {"loss": loss}


def growing_and_stateful():
    """UpSampling2D, whose gradient XLA does not have, and an LSTM that keeps its states."""
    inputs = keras.Input(batch_shape=(8, keras_models.FEATURES))
    x = layers.Conv2D(2, 2)(layers.Reshape([3, 2, 1])(inputs))
    x = layers.Conv2D(2, 2)(layers.UpSampling2D((3, 2))(x))
    x = layers.LSTM(4, stateful=True)(layers.Reshape([5, 2])(x))
    return OwnStep(inputs, layers.Dense(keras_models.CLASSES)(x))


def test_it_trains_as_without_a_strategy(tmp_path):
    """Shuffled arrays in several epochs, labels of 64 bits, a backup, one batch alone."""
    keras_models.configure(1)
    x, y = keras_models.arrays()
    y = y.astype("int64")
    found = []
    for number, scope in enumerate((contextlib.nullcontext(), IPUStrategy().scope())):
        keras.utils.set_random_seed(7)
        with scope:
            model = growing_and_stateful()
            model.compile("adam", metrics=[])
        backup = keras.callbacks.BackupAndRestore(str(tmp_path / str(number)))
        history = model.fit(x, y, 8, epochs=3, verbose=0, callbacks=[backup])
        alone = model.train_on_batch(x[:8], y[:8])
        found.append([history.history["loss"], alone, *model.get_weights()])

    assert keras_models.furthest(*found) < 1e-5


@pytest.mark.parametrize("fits_first", [True, False])
def test_a_call_of_one_batch_makes_one_step_whatever_an_execution_has(fits_first):
    """Without a strategy, with one step, the results are these; `fit` keeps its steps."""
    keras_models.configure(1)
    x, y = keras_models.arrays()
    found, ends = [], []
    at_end = keras.callbacks.LambdaCallback(on_batch_end=lambda n, logs: ends.append(n))
    for steps, scope in ((1, contextlib.nullcontext()), (4, IPUStrategy().scope())):
        keras.utils.set_random_seed(7)
        with scope:
            inputs = keras.Input([keras_models.FEATURES])
            model = keras.Model(inputs, layers.Dense(keras_models.CLASSES)(inputs))
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("sgd", loss, steps_per_execution=steps)
        ends.clear()
        fit = {"batch_size": 8, "shuffle": False, "verbose": 0, "callbacks": [at_end]}
        if fits_first:
            model.fit(x[:64], y[:64], **fit)
        single = [
            model.train_on_batch(x[:8], y[:8]),
            model.test_on_batch(x[:8], y[:8]),
            model.predict_on_batch(x[:8]),
        ]
        if not fits_first:
            model.fit(x[:64], y[:64], **fit)
        found.append([*single, *model.get_weights()])
        assert int(model.optimizer.iterations) == 9

    assert ends == [3, 7]
    assert keras_models.furthest(*found) < 1e-5


@pytest.mark.parametrize("pipelined", [False, True], ids=["plain", "pipelined"])
def test_each_replica_has_the_whole_of_one_batch(pipelined):
    """The gradients are summed: two IPUs move weights as one with twice the rate."""
    x, y = keras_models.arrays()
    found = []
    for ipus, rate in ((1, 0.2), (2, 0.1)):
        keras_models.configure(ipus)
        keras.utils.set_random_seed(7)
        with IPUStrategy().scope():
            inputs = keras.Input([keras_models.FEATURES], 8)
            hidden = layers.Dense(4, activation="tanh")(inputs)
            model = keras.Model(inputs, layers.Dense(keras_models.CLASSES)(hidden))
            if pipelined and ipus == 2:
                stages = model.get_pipeline_stage_assignment()
                for number, each in enumerate(stages):
                    each.pipeline_stage = number
                model.set_pipeline_stage_assignment(stages)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.SGD(rate), loss, steps_per_execution=4)
        single = [
            value
            for _ in range(2)
            for value in (
                model.train_on_batch(x[:8], y[:8]),
                model.test_on_batch(x[:8], y[:8]),
                model.predict_on_batch(x[:8]),
            )
        ]
        found.append([*single, *model.get_weights()])

    assert found[0][2].shape == (8, keras_models.CLASSES)
    assert keras_models.furthest(*found) < 1e-5


def test_the_gradient_of_resizing_is_that_of_the_kernel():
    """Also where sizes do not divide, and with each way to count pixels."""
    from ipufeed.tf_patches.resize_gradient import _sums

    images = tf.random.stateless_uniform([2, 5, 4, 3], [1, 2])
    for align, half in ((False, False), (False, True), (True, False)):
        for size in ((10, 12), (7, 9), (3, 2), (5, 1)):
            with tf.GradientTape() as tape:
                tape.watch(images)
                large = tf.raw_ops.ResizeNearestNeighbor(
                    images=images,
                    size=size,
                    align_corners=align,
                    half_pixel_centers=half,
                )
                weights = tf.random.stateless_uniform(large.shape, [3, 4])
                loss = tf.reduce_sum(large * weights)
            rows, columns = (
                _sums(a, b, align, half) for a, b in zip(size, (5, 4), strict=True)
            )
            ours = np.einsum("pa,bpqc,qd->badc", rows, weights, columns)
            assert np.allclose(ours, tape.gradient(loss, images), atol=1e-5)
