"""export_keras: a Keras model as a SavedModel, of each form of model."""

import re

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

import ipufeed as ipu
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.process_state import STATE

pytestmark = pytest.mark.usefixtures("engines_end")
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="module")
def engines_end():
    """Not after each test: the same program of both Keras is compiled and loaded once."""
    yield
    STATE.reset("engines", "provided")


@pytest.fixture(scope="module")
def two_ipus():
    models.configure(2)
    yield IPUStrategy()
    models.configure(1)


def sequential(kind, *last):
    layers = [kind.layers.Dense(3, "relu"), *last]
    return kind.Sequential([kind.Input((4,), name="x"), *layers])


def called(folder):
    """What the exported model gives for X, by the names of its results."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    names = signature.structured_input_signature[1]
    results = signature(**dict.fromkeys(names, tf.constant(X)))
    return sorted(names), {name: value.numpy() for name, value in results.items()}


def test_a_sequential_is_exported_by_either_call(strategy, kind, tmp_path):
    """Without dropout, as in predict; steps on the CPU are before and after it."""
    with strategy.scope():
        model = sequential(kind, kind.layers.Dropout(0.5))
        model.compile("sgd", "mse", steps_per_execution=4)
    expected = model.predict(X, 2, verbose=0)

    predict = ipu.serving.export_keras(model, tmp_path / "a", 2, output_names="y")
    np.testing.assert_allclose(predict(X)["y"], expected, rtol=1e-5)
    names, results = called(tmp_path / "a")
    assert len(names) == 1
    np.testing.assert_allclose(results["y"], expected, rtol=1e-5)

    model.export_for_ipu_serving(
        tmp_path / "b",
        batch_size=2,
        preprocessing_step=lambda raw: tf.reverse(raw, [0]),
        preprocessing_step_signature=[tf.TensorSpec([2, 4], tf.float32)],
        postprocessing_step=lambda y: -y,
    )
    names, results = called(tmp_path / "b")
    assert names == ["raw"]
    np.testing.assert_allclose(results["output_0"], -expected[::-1], rtol=1e-5)


def test_inputs_have_the_names_of_the_model_s(strategy, kind, tmp_path):
    """Of a list and of a dict of inputs; a batch size may be the model's own."""
    with strategy.scope():
        a, b = (kind.Input((4,), 2, name=name) for name in "ab")
        listed = kind.Model([a, b], [a * 2.0 + b, b])
        named = kind.Model({"a": a, "b": b}, a * 2.0 + b)
    for number, model in enumerate((listed, named)):
        ipu.serving.export_keras(model, tmp_path / str(number))
        names, results = called(tmp_path / str(number))
        assert names == ["a", "b"]
        np.testing.assert_allclose(results["output_0"], 3 * X)


def test_a_subclass_is_exported_once_it_is_built(strategy, kind, tmp_path):
    """Before, the shapes of its input are unknown."""

    class Own(kind.Model):
        def __init__(self):
            super().__init__()
            self.dense = kind.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    with strategy.scope():
        model = Own()
        with pytest.raises(ValueError, match="has not been built with one input of a"):
            model.export_for_ipu_serving(tmp_path / "own", 2)
        expected = model(tf.constant(X)).numpy()
    model.export_for_ipu_serving(tmp_path / "own", 2)
    names, results = called(tmp_path / "own")
    assert names == ["input_0"]
    np.testing.assert_allclose(results["output_0"], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [keras], ids=["keras3"])
def test_the_stages_of_a_model_are_a_pipeline_of_the_file(
    two_ipus, kind, tmp_path, caplog
):
    """On as many IPUs, of as many mini-batches as an execution has steps."""
    with two_ipus.scope():
        model = sequential(kind, kind.layers.Dense(1))
        model.set_pipeline_stage_assignment([0, 1])
        model.compile("sgd", "mse", steps_per_execution=3)
        with pytest.raises(ValueError, match=r"a multiple of 2 .* is 3"):
            model.export_for_ipu_serving(tmp_path / "piped", 2)
        model.compile("sgd", "mse", steps_per_execution=4)
        expected = model(tf.constant(X)).numpy()
    with caplog.at_level("INFO", "ipufeed"):
        model.export_for_ipu_serving(tmp_path / "piped", 2)
    assert "Compiled stage_pipeline_ipu1" in caplog.text
    _, results = called(tmp_path / "piped")
    np.testing.assert_allclose(results["output_0"], expected, rtol=1e-5)


def test_what_cannot_be_exported_is_named(strategy, kind, tmp_path):
    """Nothing is written."""
    host = sequential(kind)
    with strategy.scope():
        model = sequential(kind)
        fixed = kind.Sequential([kind.Input((4,), 2), kind.layers.Dense(1)])
    export = ipu.serving.export_keras
    for call, words in {
        lambda: export(model, tmp_path / "a"): "Not all dimensions of inputs can be de",
        lambda: export(
            model, tmp_path / "a", "2"
        ): "`batch_size` must be an int, got s",
        lambda: export(
            model, tmp_path / "a", 0
        ): "`batch_size` must be at least 1, got",
        lambda: export(fixed, tmp_path / "a", 3): "was made for batches of 2: leave",
        lambda: export(host, tmp_path / "a", 2): "made in the scope of an IPUStrategy",
        lambda: export(3, tmp_path / "a", 2): "`model` must be a Keras model .*got int",
        lambda: export(
            model, tmp_path / "a", 2, purge_export_dir=1
        ): "purge_export_dir must be a bool, got int 1",
    }.items():
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'b'}")):
        export(model, tmp_path / "b", 2)
