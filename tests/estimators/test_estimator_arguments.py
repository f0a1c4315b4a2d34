"""Arguments of estimators: what is wrong is refused before a program is compiled."""

import keras
import pytest
import tensorflow as tf
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_pipeline_estimator import IPUPipelineEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

from ipufeed.errors import RefusedError

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    loss = tf.reduce_mean(tf.cast(features + labels, tf.float32))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)


def data(count=1):
    return tf.data.Dataset.from_tensors((tf.zeros([2]), tf.zeros([2]))).repeat(count)


def without_labels(features, mode):
    return None


@pytest.mark.parametrize(
    ("model", "arguments", "error", "text"),
    [
        (1, {}, TypeError, "`model_fn` must be a function"),
        (lambda x: None, {}, ValueError, r"not expected args: \['x'\]"),
        (lambda mode: None, {}, ValueError, "must include features argument"),
        (model_fn, {"config": object()}, ValueError, "ipu_run_config.RunConfig"),
        (model_fn, {"params": 1}, TypeError, "`params` must be a dict"),
        (model_fn, {"train_batch_size": 0}, ValueError, "positive multiple"),
        (model_fn, {"eval_batch_size": 1.0}, TypeError, "must be an int or None"),
        (
            model_fn,
            {"train_batch_size": 2, "params": {"batch_size": 2}},
            ValueError,
            "`params` must not have 'batch_size'",
        ),
        (
            model_fn,
            {"model_dir": "a", "config": RunConfig(model_dir="b")},
            ValueError,
            "In constructor: 'a', in `RunConfig`: 'b'",
        ),
    ],
)
def test_estimator_refuses(model, arguments, error, text):
    with pytest.raises(error, match=text):
        IPUEstimator(model, **arguments)


def test_pipeline_estimator_has_no_features():
    with pytest.raises(ValueError, match=r"not expected args: \['features'\]"):
        IPUPipelineEstimator(lambda features, mode: None)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda each: each.train(data, steps=3), ValueError, r"steps \(3\) .* \(2\)"),
        (lambda each: each.train(data, steps=0), ValueError, "Must specify steps > 0"),
        (lambda each: each.train(data, steps=2.0), TypeError, "`steps` must be an int"),
        (
            lambda each: each.train(data, steps=2, max_steps=2),
            ValueError,
            "both steps and max_steps",
        ),
        (lambda each: each.train(data, max_steps=0), ValueError, "max_steps > 0"),
        (
            lambda each: each.train(data, max_steps="9"),
            TypeError,
            "`max_steps` must be",
        ),
        (
            lambda each: each.train(data, max_steps=5),
            ValueError,
            r"max_steps 5 after step 0: steps \(5\) must be a multiple",
        ),
        (
            lambda each: each.train(data, steps=2, saving_listeners=[1]),
            TypeError,
            "list of CheckpointSaverListener, got int",
        ),
        (
            lambda each: each.evaluate(data, checkpoint_path="nothing/here"),
            ValueError,
            "`checkpoint_path` .* there is none at 'nothing/here'",
        ),
        (
            lambda each: each.predict(data, checkpoint_path=3),
            TypeError,
            "`checkpoint_path` must be the path of a checkpoint .* got int",
        ),
        (
            lambda each: each.train(1, steps=2),
            TypeError,
            "`input_fn` must be a function",
        ),
        (
            lambda each: each.train(lambda: tf.zeros([2]), steps=2),
            ValueError,
            "input_fn must return Dataset, got .*Tensor",
        ),
        (
            lambda each: each.train(
                lambda: tf.data.Dataset.from_tensors((1, 2, 3)).repeat(), steps=2
            ),
            ValueError,
            "got a tuple of 3",
        ),
        (
            lambda each: each.evaluate(data, steps=5),
            ValueError,
            r"steps \(5\) .* \(2\)",
        ),
        (
            lambda each: each.predict(data, num_predictions=0),
            ValueError,
            "num_predictions > 0",
        ),
        (lambda each: each.get_variable_names(), ValueError, "find trained model in"),
        (lambda each: each.export_saved_model("a"), RefusedError, "export_single_step"),
    ],
)
def test_calls_refuse(tmp_path, call, error, text):
    config = RunConfig(IPURunConfig(2), model_dir=str(tmp_path))
    with pytest.raises(error, match=text):
        call(IPUEstimator(model_fn, config=config))


@pytest.mark.parametrize(
    ("model", "error", "text"),
    [
        (without_labels, ValueError, "model_fn does not take labels, but input_fn"),
        (lambda features, labels: 1, TypeError, "must return an IPUEstimatorSpec"),
        (
            lambda features, labels: tf.estimator.EstimatorSpec(
                "eval", loss=tf.constant(1.0)
            ),
            ValueError,
            "of the mode 'eval' in the mode 'train'",
        ),
    ],
)
def test_what_a_model_function_returns_is_checked(tmp_path, model, error, text):
    estimator = IPUEstimator(model, model_dir=str(tmp_path))
    with pytest.raises(error, match=text):
        estimator.train(data, steps=1)


def test_dataset_is_made_in_input_fn(tmp_path):
    with tf.Graph().as_default():
        outside = data()
    with pytest.raises(ValueError, match="input_fn must make the dataset"):
        IPUEstimator(model_fn, model_dir=str(tmp_path)).train(lambda: outside, steps=1)


def of_shape(**shapes):
    """A model with variables of these names and shapes."""

    def model(features, labels, mode):
        weights = [v1.get_variable(*each) for each in shapes.items()]
        loss = tf.add_n([tf.reduce_mean(each) for each in weights])
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    return model


def test_checkpoint_must_be_of_the_model(tmp_path):
    """A folder is its latest checkpoint."""
    first = IPUEstimator(of_shape(a=[2], b=[2]), model_dir=str(tmp_path))
    first.train(data, steps=1)
    other = IPUEstimator(of_shape(a=[3], c=[2]), model_dir=str(tmp_path))
    text = r"of another model: 'a' has the shape \[2\], and \(3,\) in the model; .* 'c'"
    for call in (other.train, other.evaluate):
        with pytest.raises(ValueError, match=text):
            call(data)
    found = first.evaluate(data, checkpoint_path=str(tmp_path))
    assert found["global_step"] == 1


def test_warm_start_needs_a_checkpoint(tmp_path):
    model = of_shape(a=[2])
    arguments = {"model_dir": str(tmp_path), "warm_start_from": str(tmp_path)}
    with pytest.raises(ValueError, match=r"`warm_start_from` .* there is none at"):
        IPUEstimator(model, **arguments).train(data, steps=1)


def test_empty_dataset_trains_nothing_and_cannot_be_evaluated(tmp_path, caplog):
    def model(features, labels, mode):
        loss = tf.reduce_mean(features)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

    estimator = IPUEstimator(model, model_dir=str(tmp_path))
    estimator.train(lambda: data(0))
    assert "Training with estimator made no steps." in caplog.text
    with pytest.raises(ValueError, match="Evaluation has no step"):
        estimator.evaluate(lambda: data(0))


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (lambda loss: loss, "must be a pair of a value .* got"),
        (lambda loss: (loss, 1), "got tuple of .*Tensor, int"),
        (lambda loss: keras.metrics.Mean(), "got Mean of Keras 3.*TF_USE_LEGACY_KERAS"),
    ],
)
def test_metrics_must_be_pairs(tmp_path, metric, text):
    def model(features, labels, mode):
        loss = tf.reduce_mean(features)
        metrics = {"mine": metric(loss)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    with pytest.raises(TypeError, match=f"The metric 'mine' .*{text}"):
        IPUEstimator(model, model_dir=str(tmp_path)).evaluate(data)
