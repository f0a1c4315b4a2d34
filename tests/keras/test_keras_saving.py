"""What was set on a model is set on the model that a file gives."""

import json
import zipfile

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ipufeed.device.program.strategy import IPUStrategy

OPTIONS = {
    "gradient_accumulation_steps_per_replica": 2,
    "gradient_accumulation_reduction_method": "MEAN",
    "gradient_accumulation_optimizer_kwargs": {"dtype": "float32"},
    "replicated_metric_reduction_method": "SUM",
    "asynchronous_callbacks": True,
    "infeed_kwargs": {"prefetch_depth": 3},
    "outfeed_kwargs": {"buffer_depth": 50},
}


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    models.configure(1)


def set_all(model):
    model.set_gradient_accumulation_options(2, "mean", dtype=tf.float32)
    model.set_replication_options("sum")
    model.set_asynchronous_callbacks(True)
    model.set_infeed_queue_options(prefetch_depth=3)
    model.set_outfeed_queue_options(buffer_depth=50)


def saved_options(path):
    config = json.loads(zipfile.ZipFile(path).read("config.json"))
    return config["build_config"]["ipu_options"]


def subclass():
    @keras.saving.register_keras_serializable("tests")
    class Mine(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.out = keras.layers.Dense(models.CLASSES)

        def call(self, x):
            return self.out(x)

    return Mine()


@pytest.mark.long
@pytest.mark.parametrize("make", [models.dense, models.stateful, subclass])
def test_options_are_saved_with_the_model(make, tmp_path):
    """Inside of a scope they are set again; elsewhere the file is one of stock Keras."""
    path = tmp_path / "model.keras"
    strategy = IPUStrategy()
    with strategy.scope():
        model = models.compiled(make, steps_per_execution=4)
        set_all(model)
    model.fit(models.dataset(), verbose=0, shuffle=False)
    model.save(path)
    with strategy.scope():
        here = keras.models.load_model(path)
    there = keras.models.load_model(path)
    here.save(tmp_path / "again.keras")

    assert OPTIONS.items() <= saved_options(path).items()
    assert saved_options(tmp_path / "again.keras") == saved_options(path)
    assert "_ipufeed" not in there.__dict__
    steps = models.Steps()
    here.fit(models.dataset(), verbose=0, shuffle=False, callbacks=[steps])
    assert steps.ends == list(range(8))  # each step's: asynchronous
    assert here.__dict__["_ipufeed"].accumulation == 2
    assert there.predict(models.dataset(), verbose=0).shape == (64, models.CLASSES)


def test_a_file_of_stock_keras_has_no_options(tmp_path):
    """It loads in the scope; a file of the scope's without options has the defaults."""
    models.dense().save(tmp_path / "model.keras")
    with IPUStrategy().scope():
        model = keras.models.load_model(tmp_path / "model.keras")
        model.compile("sgd", models.cross_entropy())
    model.fit(models.dataset(), verbose=0, shuffle=False)

    assert model.__dict__["_ipufeed"].accumulation is None


@pytest.mark.long
def test_stages_are_saved_with_the_model(tmp_path, caplog):
    """Those of a Sequential, and of scopes; options that are not saved are named."""
    models.configure(2)
    strategy = IPUStrategy()
    path = tmp_path / "model.keras"
    with strategy.scope():
        model = models.compiled(models.dense, steps_per_execution=8)
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(8, device_mapping=[1, 0], offload_activations=None)
    model.save(path)
    with strategy.scope():
        loaded = keras.models.load_model(path)
    losses = [
        each.fit(models.dataset(), verbose=0, shuffle=False).history["loss"]
        for each in (model, loaded)
    ]
    stages = [each.pipeline_stage for each in loaded.get_pipeline_stage_assignment()]
    models.configure(1)

    assert np.array_equal(*losses)
    assert stages == [0, 1]
    assert saved_options(path)["pipeline_stage_assignment"] == [0, 1]
    assert loaded.__dict__["_ipufeed"].pipeline.device_mapping == [1, 0]
    assert "offload_activations of the model" in caplog.text


def test_options_of_tf_keras(tmp_path):
    """The same in its files."""
    path = tmp_path / "model.keras"
    strategy = IPUStrategy()
    with strategy.scope():
        inputs = tf_keras.Input((6,))
        model = tf_keras.Model(inputs, tf_keras.layers.Dense(4)(inputs))
        model.compile("sgd", "mse", steps_per_execution=2)
    set_all(model)
    model.save(path)
    with strategy.scope():
        here = tf_keras.models.load_model(path)
    there = tf_keras.models.load_model(path)

    assert OPTIONS.items() <= saved_options(path).items()
    assert here.__dict__["_ipufeed"].accumulation == 2
    assert here.__dict__["_ipufeed"].accumulation_dtype == tf.float32
    assert here.__dict__["_ipufeed"].infeed == {"prefetch_depth": 3}
    assert "_ipufeed" not in there.__dict__
