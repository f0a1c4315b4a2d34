"""What a model function builds for the session: savers, initial values, other ops."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

pytestmark = pytest.mark.long

v1 = tf.compat.v1


def data():
    return tf.data.Dataset.from_tensors(1.0).repeat()


def trained(folder, build, start=0.0):
    """Returns the estimator after two steps, each of which adds 1 to the weight."""

    def model_fn(features, mode):
        weight = v1.get_variable("weight", initializer=np.float32(start))
        loss = -weight * features
        step = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=step, scaffold=build(weight)
        )

    options = IPUConfig()
    options.auto_select_ipus = 1
    config = RunConfig(IPURunConfig(2, ipu_options=options), model_dir=str(folder))
    estimator = IPUEstimator(model_fn, config=config)
    estimator.train(data, steps=2)
    return estimator


def placeholder_fed(weight):
    """Sets the weight to 5 by what is fed to a placeholder."""
    value = v1.placeholder(tf.float32, [])
    assign = v1.assign(weight, value)
    return v1.train.Scaffold(
        init_fn=lambda scaffold, session: session.run(assign, {value: 5.0})
    )


SCAFFOLDS = {
    "a saver": (lambda weight: v1.train.Scaffold(saver=v1.train.Saver()), 2),
    "a saver of some": (
        lambda weight: v1.train.Scaffold(
            saver=v1.train.Saver([weight, v1.train.get_global_step()])
        ),
        2,
    ),
    "an init_op": (
        lambda weight: v1.train.Scaffold(init_op=v1.global_variables_initializer()),
        2,
    ),
    "a local_init_op": (
        lambda weight: v1.train.Scaffold(local_init_op=tf.no_op()),
        2,
    ),
    "a ready_op": (
        lambda weight: v1.train.Scaffold(
            ready_op=v1.report_uninitialized_variables([weight])
        ),
        2,
    ),
    "an init_feed_dict": (
        lambda weight: v1.train.Scaffold(
            init_op=v1.global_variables_initializer(),
            init_feed_dict={v1.placeholder(tf.float32, []): 1.0},
        ),
        2,
    ),
}


@pytest.mark.parametrize(
    ("build", "weight"),
    [*SCAFFOLDS.values(), (placeholder_fed, 7)],
    ids=[*SCAFFOLDS, "an init_fn"],
)
def test_session_has_what_is_built_in_an_init_scope(tmp_path, build, weight):
    def lifted(variable):
        with tf.init_scope():
            return build(variable)

    estimator = trained(tmp_path, lifted)
    assert estimator.get_variable_value("weight") == weight
    assert estimator.get_variable_value("global_step") == 2


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_ops_of_a_scaffold_in_the_program_are_refused(tmp_path, name):
    """They cannot run without the program; the error names the scope to build them in."""
    build, _ = SCAFFOLDS[name]
    with pytest.raises(ValueError, match=r"Scaffold\(.*=\).*`with tf.init_scope\(\):`"):
        trained(tmp_path, build)


def test_init_from_checkpoint_needs_an_init_scope(tmp_path):
    trained(tmp_path / "first", lambda weight: None, start=10.0)
    path = tf.train.latest_checkpoint(str(tmp_path / "first"))

    def from_checkpoint(weight):
        v1.train.init_from_checkpoint(path, {"weight": weight})

    def lifted(weight):
        with tf.init_scope():
            from_checkpoint(weight)

    with pytest.raises(
        ValueError, match=r"initializer of `weight`.*`with tf.init_scope\(\):`"
    ):
        trained(tmp_path / "second", from_checkpoint)
    estimator = trained(tmp_path / "third", lifted)
    assert estimator.get_variable_value("weight") == 10 + 2 + 2


def test_scaffold_is_one():
    loss = tf.constant(1.0)
    with pytest.raises(TypeError, match=r"`scaffold` must be .*Scaffold or None.*int"):
        tf.estimator.EstimatorSpec("train", loss=loss, train_op=loss, scaffold=3)
