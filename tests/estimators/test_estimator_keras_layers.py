"""Layers of Keras in model functions: names in checkpoints, and state of layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

pytestmark = pytest.mark.long

v1 = tf.compat.v1
INPUTS = np.random.default_rng(1).normal(3.0, size=(32, 4)).astype(np.float32)


def data(mode):
    samples = tf.data.Dataset.from_tensor_slices(INPUTS)
    samples = samples.repeat() if mode == tf.estimator.ModeKeys.TRAIN else samples
    return samples.batch(8, drop_remainder=True)


def model_fn(features, mode):
    training = mode == tf.estimator.ModeKeys.TRAIN
    outputs = keras.layers.BatchNormalization(momentum=0.5)(features, training=training)
    outputs = keras.layers.Dense(3, activation="relu")(outputs)
    outputs = keras.layers.Dense(1)(outputs)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=outputs)
    loss = tf.reduce_mean(tf.square(outputs))
    train_op = v1.train.AdamOptimizer(0.01).minimize(loss) if training else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(model, folder, iterations=2):
    options = IPUConfig()
    options.auto_select_ipus = 1
    settings = IPURunConfig(iterations, ipu_options=options)
    return IPUEstimator(model, config=RunConfig(settings, model_dir=str(folder)))


def test_layers_find_their_variables_in_the_checkpoint(tmp_path):
    """The layers of a program outside of the estimator keep their own count."""
    outside = keras.layers.Dense(1).name
    trained = estimator(model_fn, tmp_path)
    trained.train(data, steps=2)
    names = trained.get_variable_names()
    trained.train(data, steps=2)
    assert trained.get_variable_names() == names
    assert trained.get_variable_value("global_step") == 4
    assert np.isfinite(trained.evaluate(data)["loss"])
    assert len(list(trained.predict(data))) == len(INPUTS)
    number = int(outside.rpartition("_")[2]) if "_" in outside else 0
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"


def test_training_updates_moving_averages(tmp_path):
    trained = estimator(model_fn, tmp_path)
    trained.train(data, steps=4)
    mean = np.zeros(4)
    for start in range(0, 32, 8):
        mean = 0.5 * mean + 0.5 * INPUTS[start : start + 8].mean(axis=0)
    found = trained.get_variable_value("batch_normalization/moving_mean")
    np.testing.assert_allclose(found, mean, rtol=1e-5)


def test_dropout_is_another_in_each_step(tmp_path):
    """Weights with a gradient of the mask are its sum: of ten masks, they have a mix."""

    def model(features, mode):
        weights = v1.get_variable("weights", [256], initializer=v1.zeros_initializer())
        kept = keras.layers.Dropout(0.5)(tf.ones([1, 256]), training=True)[0]
        loss = -tf.reduce_sum(weights * kept) + 0 * tf.reduce_sum(features)
        step = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    trained = estimator(model, tmp_path, iterations=5)
    trained.train(data, steps=10)
    assert len(np.unique(trained.get_variable_value("weights"))) > 2
