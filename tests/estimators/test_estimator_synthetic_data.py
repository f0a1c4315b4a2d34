"""Estimators with synthetic data: what has results ends, and what has none says so."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

v1 = tf.compat.v1


def input_fn():
    return tf.data.Dataset.from_tensors((np.ones([4, 2], "f4"), np.ones([4, 1], "f4")))


def model_fn(features, labels, mode):
    weights = v1.get_variable("w", [2, 1], initializer=v1.ones_initializer())
    outputs = features @ weights
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=outputs)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def test_results_of_synthetic_outfeeds_are_refused(tmp_path, monkeypatch, clean_system):
    """A prediction did not end, and an evaluation blamed the dataset."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    settings = RunConfig(IPURunConfig(2, config), model_dir=str(tmp_path))
    estimator = IPUEstimator(model_fn, config=settings)

    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    estimator.train(input_fn, steps=4)
    with pytest.raises(ValueError, match="TF_POPLAR_FLAGS makes the outfeeds synth"):
        estimator.evaluate(input_fn, steps=2)
    with pytest.raises(ValueError, match="Give --synthetic_data_categories=infeed"):
        next(estimator.predict(lambda: input_fn().map(lambda x, _: x)))

    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=infeed")
    assert estimator.evaluate(input_fn, steps=2)["loss"] == 0
