"""A replica of an estimator has `num_shards` IPUs, whatever its model function uses."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu import scopes
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

v1 = tf.compat.v1
INPUTS = np.random.default_rng(3).normal(size=(16, 2)).astype(np.float32)
TARGETS = INPUTS @ np.array([[1.0], [-2.0]], np.float32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((INPUTS, TARGETS)).batch(4, True)


@pytest.mark.parametrize("last", [0, 1])
def test_two_shards_are_not_two_replicas(tmp_path, last):
    """Each of two replicas trained with its half of the batches, and one was saved."""

    def model_fn(features, labels, mode):
        with scopes.ipu_shard(last):
            weights = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
            outputs = features @ weights
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=outputs)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=v1.train.GradientDescentOptimizer(0.1).minimize(loss),
            eval_metric_ops={"error": v1.metrics.mean_absolute_error(labels, outputs)},
        )

    config = IPUConfig()
    config.auto_select_ipus = 2
    settings = IPURunConfig(2, config, num_shards=2)
    estimator = IPUEstimator(
        model_fn, config=RunConfig(settings, model_dir=str(tmp_path))
    )
    estimator.train(input_fn, steps=4)

    weights = np.zeros([2, 1])
    for start in range(0, 16, 4):
        inputs, targets = (each[start : start + 4] for each in (INPUTS, TARGETS))
        weights = weights - 0.1 * 2 * inputs.T @ (inputs @ weights - targets) / 4
    np.testing.assert_allclose(estimator.get_variable_value("w"), weights, rtol=1e-4)
    found = estimator.evaluate(input_fn)
    error = np.mean(abs(INPUTS @ weights - TARGETS))
    np.testing.assert_allclose(found["error"], error, rtol=1e-4)
    predicted = list(estimator.predict(lambda: input_fn().map(lambda x, _: x)))
    np.testing.assert_allclose(predicted, INPUTS @ weights, rtol=1e-4)
