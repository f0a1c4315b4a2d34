"""Metrics of evaluations equal those of a session on the CPU."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

v1 = tf.compat.v1
CLASSES, BATCH = 5, 8
random = np.random.default_rng(1)
SCORES = random.normal(size=(40, CLASSES)).astype(np.float32)
LABELS = random.integers(0, CLASSES, 40).astype(np.int32)


def data():
    samples = tf.data.Dataset.from_tensor_slices((SCORES, LABELS))
    return samples.batch(BATCH, drop_remainder=True)


def metrics(labels, scores):
    """Metrics whose updates are a tensor or what is like a variable."""
    found = tf.argmax(scores, axis=1, output_type=tf.int32)
    return {
        "accuracy": v1.metrics.accuracy(labels, found),
        "auc": v1.metrics.auc(labels > 2, tf.sigmoid(scores[:, 0])),
        "mean_iou": v1.metrics.mean_iou(labels, found, CLASSES),
        "false_positives": v1.metrics.false_positives(labels > 2, found > 2),
    }


def host_metrics(labels, scores):
    """With one whose ops no device program has."""
    column = tf.cast(labels[:, None], tf.int64)
    return metrics(labels, scores) | {
        "precision_at_k": v1.metrics.precision_at_k(column, scores, 2)
    }


def on_cpu():
    """Returns the values of a session's metrics."""
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        scores = v1.placeholder(tf.float32, [BATCH, CLASSES])
        labels = v1.placeholder(tf.int32, [BATCH])
        pairs = host_metrics(labels, scores)
        with v1.Session() as session:
            session.run(v1.local_variables_initializer())
            for start in range(0, len(LABELS), BATCH):
                part = slice(start, start + BATCH)
                session.run(
                    [update for _, update in pairs.values()],
                    {scores: SCORES[part], labels: LABELS[part]},
                )
            return session.run({name: value for name, (value, _) in pairs.items()})


def on_ipu(features, labels, mode):
    return tf.estimator.EstimatorSpec(
        mode,
        loss=tf.reduce_mean(features),
        eval_metric_ops=metrics(labels, features),
    )


def on_host(features, labels, mode):
    return IPUEstimatorSpec(
        mode,
        loss=tf.reduce_mean(features),
        eval_metrics=(host_metrics, {"labels": labels, "scores": features}),
    )


def made(folder, iterations, model_fn):
    options = IPUConfig()
    options.auto_select_ipus = 1
    config = IPURunConfig(iterations, ipu_options=options)
    config = RunConfig(config, model_dir=str(folder))
    return IPUEstimator(model_fn, config=config)


@pytest.mark.parametrize("model_fn", [on_ipu, on_host])
def test_metrics_equal_those_of_a_session(tmp_path, model_fn):
    found = made(tmp_path, 5, model_fn).evaluate(data)
    expected = on_cpu()
    for name in found.keys() - {"loss", "global_step"}:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)


def test_evaluation_has_as_many_steps_as_requested(tmp_path):
    def model(features, labels, mode):
        seen = v1.get_local_variable("seen", [], initializer=v1.zeros_initializer())
        value = seen.read_value()
        return tf.estimator.EstimatorSpec(
            mode,
            loss=tf.reduce_sum(features),
            eval_metric_ops={"steps": (value, seen.assign_add(1.0))},
        )

    assert made(tmp_path, 2, model).evaluate(data, steps=4)["steps"] == 4
