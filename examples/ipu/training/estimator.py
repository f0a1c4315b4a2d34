"""A classifier as a model function: trained, evaluated and used by an IPUEstimator.

The points of two classes lie on either side of a line. A run of the training program is a
loop of 50 steps; the evaluation reads the checkpoint that the training has written. Prints

    trained for 500 steps
    more than 9 of 10 are right: True
    first point: class 0
"""

import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import ipu_estimator, ipu_run_config
from tensorflow.python.ipu.config import IPUConfig

BATCH = 16

tf.disable_v2_behavior()


def points(seed):
    """Returns 512 points, and the class of each."""
    inputs = np.random.default_rng(seed).normal(size=(512, 2)).astype(np.float32)
    return inputs, (inputs.sum(axis=1) > 0).astype(np.int32)


def training_data():
    data = tf.data.Dataset.from_tensor_slices(points(seed=1))
    return data.shuffle(512, seed=1).repeat().batch(BATCH, drop_remainder=True)


def test_data():
    data = tf.data.Dataset.from_tensor_slices(points(seed=2))
    return data.batch(BATCH, drop_remainder=True)


def model_fn(features, labels, mode, params):
    """One step: called once, and compiled as the body of a loop."""
    hidden = tf.layers.dense(features, params["units"], activation=tf.nn.relu)
    logits = tf.layers.dense(hidden, 2)
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": classes})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        right = tf.metrics.accuracy(labels, classes)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"right": right}
        )
    # The estimator counts the steps: `minimize` has no global_step.
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    options = IPUConfig()
    options.auto_select_ipus = 1
    with tempfile.TemporaryDirectory() as folder:
        estimator = ipu_estimator.IPUEstimator(
            model_fn,
            config=ipu_run_config.RunConfig(
                ipu_run_config.IPURunConfig(
                    iterations_per_loop=50, ipu_options=options
                ),
                model_dir=folder,
                tf_random_seed=1,
            ),
            params={"units": 8},
        )
        estimator.train(training_data, steps=500)
        print(f"trained for {estimator.get_variable_value('global_step')} steps")
        # 32 batches are less than a loop: what the loop has computed then counts.
        right = estimator.evaluate(test_data)["right"]
        print("more than 9 of 10 are right:", bool(right > 0.9))
        first = next(estimator.predict(test_data))
        print(f"first point: class {first['class']}")


if __name__ == "__main__":
    main()
