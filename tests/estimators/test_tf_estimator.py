"""tf.estimator: the names that programs with an IPUEstimator use of it."""

import importlib

import pytest
import tensorflow as tf
from tensorflow.python.ipu import ipu_estimator

from ipufeed.errors import RefusedError

v1 = tf.compat.v1
SPECS = (tf.estimator.EstimatorSpec, ipu_estimator.IPUEstimatorSpec)


def test_module_is_found_where_programs_look_for_it():
    imported = importlib.import_module("tensorflow.compat.v1")

    assert tf.estimator.ModeKeys.PREDICT == "infer"
    assert v1.estimator.EstimatorSpec is tf.estimator.EstimatorSpec
    assert imported.estimator.ModeKeys is tf.estimator.ModeKeys
    assert tf.estimator.LoggingTensorHook is v1.train.LoggingTensorHook


def test_other_names_are_refused_with_what_to_use():
    with pytest.raises(RefusedError, match=r"estimator.train and estimator.evaluate"):
        tf.estimator.train_and_evaluate(None)
    with pytest.raises(RefusedError, match=r"IPUEstimator"):
        exec("class Own(Estimator): pass", {"Estimator": tf.estimator.Estimator})
    with pytest.raises(AttributeError, match=r"has no 'DNNClassifier'.*IPUEstimator"):
        _ = tf.estimator.DNNClassifier


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(
    ("mode", "missing"), [("train", "loss"), ("eval", "loss"), ("infer", "predictions")]
)
def test_spec_needs_what_its_mode_needs(spec, mode, missing):
    with pytest.raises(ValueError, match=f"Missing {missing}: {spec.__name__} needs"):
        spec(mode)


@pytest.mark.parametrize("spec", SPECS)
def test_spec_checks_its_values(spec):
    loss = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"`mode` must be .*train, eval, infer"):
        spec("test")
    with pytest.raises(ValueError, match=r"Missing train_op"):
        spec("train", loss=loss)
    with pytest.raises(ValueError, match=r"Loss must be scalar.*\(2,\)"):
        spec("train", loss=tf.ones([2]), train_op=loss)
    with pytest.raises(TypeError, match="`loss` must be of numbers or bools"):
        spec("train", loss="a", train_op=loss)
    with pytest.raises(TypeError, match=r"train_op must be Operation or Tensor.*int"):
        spec("train", loss=loss, train_op=1)
    with pytest.raises(
        TypeError, match=r"predictions\['a'\] must be Tensor, got float"
    ):
        spec("infer", predictions={"a": 1.0})
    with pytest.raises(TypeError, match=r"`training_hooks` is int"):
        spec("train", loss=loss, train_op=loss, training_hooks=[1])
    with pytest.raises(TypeError, match=r"`training_hooks` must be a list"):
        spec(
            "train", loss=loss, train_op=loss, training_hooks=v1.train.SessionRunHook()
        )


@pytest.mark.parametrize("spec", SPECS)
def test_metrics_of_a_spec_are_a_dict_of_names(spec):
    loss = tf.constant(1.0)
    for value in (5, "x", [1], loss):
        with pytest.raises(TypeError, match=r"eval_metric_ops must be a dict, given: "):
            spec("eval", loss=loss, eval_metric_ops=value)
    with pytest.raises(
        TypeError, match=r"names in `eval_metric_ops` must be str, got int 1"
    ):
        spec("eval", loss=loss, eval_metric_ops={1: (loss, loss)})
    made = spec("eval", loss=loss, eval_metric_ops={"a": (loss, loss)})
    assert made.eval_metric_ops == {"a": (loss, loss)}


@pytest.mark.parametrize("spec", SPECS)
def test_spec_reshapes_a_loss_of_one_element(spec):
    made = spec("train", loss=tf.ones([1, 1]), train_op=tf.constant(0))

    assert made.loss.shape == ()


def test_spec_for_evaluation_has_one_kind_of_metrics():
    loss = tf.constant(1.0)
    make = ipu_estimator.IPUEstimatorSpec
    with pytest.raises(ValueError, match=r"got neither"):
        make("eval", loss=loss)
    with pytest.raises(ValueError, match=r"got both"):
        make("eval", loss=loss, eval_metric_ops={}, eval_metrics=(dict, []))
    with pytest.raises(TypeError, match=r"`eval_metrics` must be a pair"):
        make("eval", loss=loss, eval_metrics=dict)
    with pytest.raises(TypeError, match=r"`host_call\[0\]` must be a function"):
        make("train", loss=loss, train_op=loss, host_call=(1, []))
    with pytest.raises(TypeError, match=r"`host_call\[1\]` must be a list or a dict"):
        make("train", loss=loss, train_op=loss, host_call=(dict, loss))
