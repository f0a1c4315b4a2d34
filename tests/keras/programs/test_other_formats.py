"""HDF5 files and SavedModels keep the options of a model, as `.keras` files do."""

import keras_models as models
import numpy as np
import pytest
import tf_keras

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long


@pytest.fixture
def two_ipus(strategy):
    models.configure(2)
    yield IPUStrategy()
    models.configure(1)


FORMATS = ["model.keras", "model.h5", "model"]


def usable(kind, name):
    if name == "model" and kind is not tf_keras:
        pytest.skip("Keras 3 does not save it")
    return name


@pytest.mark.filterwarnings("ignore")  # of Keras, on its older formats
@pytest.mark.parametrize("name", FORMATS)
def test_accumulation_is_kept(strategy, kind, name, tmp_path):
    """In the scope; a file of the scope loads outside, and one of stock Keras in it."""
    x, y = models.arrays()
    path = tmp_path / usable(kind, name)
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", kind.losses.MeanSquaredError(), steps_per_execution=4)
    model.set_gradient_accumulation_options(4, "mean")
    model.set_infeed_queue_options(prefetch_depth=3)
    model.save(path)
    outside = kind.models.load_model(path)
    with strategy.scope():
        inside = kind.models.load_model(path)
        inside.compile("sgd", "mse", steps_per_execution=4)
    for each in (model, inside):
        each.fit(x, y, 8, shuffle=False, verbose=0)
    stock = tmp_path / f"stock_{name}"
    outside.save(stock)
    with strategy.scope():
        plain = kind.models.load_model(stock)

    assert "_ipufeed" not in outside.__dict__
    assert inside.__dict__["_ipufeed"].infeed == {"prefetch_depth": 3}
    assert int(np.asarray(inside.optimizer.iterations)) == 2
    for mine, loaded in zip(model.get_weights(), inside.get_weights(), strict=True):
        np.testing.assert_allclose(loaded, mine, 1e-6)
    assert getattr(plain.__dict__.get("_ipufeed"), "accumulation", None) is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_stages_are_kept(two_ipus, kind, name, tmp_path):
    """Of a functional model; the loaded one is a pipeline."""
    path = tmp_path / usable(kind, name)
    with two_ipus.scope():
        inputs = kind.Input((6,))
        outputs = kind.layers.Dense(1)(kind.layers.Dense(4)(inputs))
        model = kind.Model(inputs, outputs)
        model.compile("sgd", kind.losses.MeanSquaredError(), steps_per_execution=8)
        assignment = model.get_pipeline_stage_assignment()
        for stage, layer in enumerate(assignment[-2:]):
            layer.pipeline_stage = stage
        model.set_pipeline_stage_assignment(assignment)
    model.set_pipelining_options(4, device_mapping=[1, 0])
    model.save(path)
    with two_ipus.scope():
        loaded = kind.models.load_model(path)
        loaded.compile("sgd", "mse", steps_per_execution=8)
    for each in (model, loaded):
        each.fit(*models.arrays(), 8, shuffle=False, verbose=0)

    own = loaded.__dict__["_ipufeed"].pipeline
    assert (own.stages, own.accumulation, own.device_mapping) == (2, 4, [1, 0])
    for mine, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(theirs, mine, 1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_subclass_in_a_saved_model(strategy, tmp_path):
    """Without its class it is loaded as one whose layers are unknown: without stages."""

    class Own(tf_keras.Model):
        def __init__(self):
            super().__init__()
            self.one = tf_keras.layers.Dense(1)

        def call(self, inputs):
            return self.one(inputs)

    x, y = models.arrays()
    with strategy.scope():
        model = Own()
        model.compile("sgd", "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2)
    model.fit(x, y, 8, shuffle=False, verbose=0)
    model.save(tmp_path / "model")
    with strategy.scope():
        loaded = tf_keras.models.load_model(tmp_path / "model")

    assert loaded.__dict__["_ipufeed"].accumulation == 2
    np.testing.assert_allclose(
        loaded.predict(x, 8, verbose=0), model.predict(x, 8, verbose=0), 1e-5
    )
