"""The depth of a model's pipeline, and metrics of its own."""

import contextlib

import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.schedules import PipelineSchedule

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def two_ipus():
    models.configure(2)
    yield IPUStrategy()
    models.configure(1)


def stages(kind, count, own=None, **options):
    inputs = kind.Input((models.FEATURES,))
    x = inputs
    for _ in range(count):
        x = kind.layers.Dense(1)(x)
    model = (own or kind.Model)(inputs, x)
    if options:
        assignment = model.get_pipeline_stage_assignment()
        for stage, layer in enumerate(assignment[-count:]):
            layer.pipeline_stage = stage
        model.set_pipeline_stage_assignment(assignment)
        model.set_pipelining_options(**options)
    return model


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"gradient_accumulation_steps_per_replica": 2},
            r"2 pipeline stages, whose Grouped schedule in fit takes a multiple of 4 "
            "mini-batches, but `gradient_accumulation_steps_per_replica` is 2",
        ),
        (
            {
                "gradient_accumulation_steps_per_replica": 1,
                "pipeline_schedule": PipelineSchedule.Interleaved,
            },
            "Interleaved schedule in fit takes a multiple of 2 mini-batches, but",
        ),
    ],
)
def test_a_depth_that_does_not_suit(two_ipus, kind, options, words):
    """The error of fit names the argument and what suits, before anything is compiled."""
    with two_ipus.scope():
        model = stages(kind, 2, **options)
        model.compile("sgd", "mse", steps_per_execution=8)
    with pytest.raises(ValueError, match=words):
        model.fit(models.dataset(), verbose=0, shuffle=False)

    assert model.__dict__["_ipufeed"].programs == {}


def test_a_depth_of_other_calls_and_of_io_tiles(two_ipus, kind):
    """Those of evaluate and predict are `steps_per_execution`; I/O tiles are named."""
    with two_ipus.scope():
        model = stages(kind, 2, gradient_accumulation_steps_per_replica=4)
        model.compile("sgd", "mse", steps_per_execution=1)
    for call in (model.evaluate, model.predict):
        with pytest.raises(
            ValueError, match=r"`steps_per_execution` is 1\. Compile with"
        ):
            call(models.dataset(), verbose=0)
    model.compile("sgd", "mse", steps_per_execution=8)
    for call in (model.evaluate, model.predict):
        with pytest.raises(ValueError, match=r"the data have 1\. Give more or smaller"):
            call(models.dataset().take(1), verbose=0)
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.io_tiles.num_io_tiles = 64
    config.io_tiles.place_ops_on_io_tiles = True
    config.configure_ipu_system()
    words = r"in fit on IPUs with I/O tiles takes 6 or more mini-batches, .* is 4\."
    with pytest.raises(ValueError, match=words):
        model.fit(models.dataset(), verbose=0, shuffle=False)
    models.configure(2)


def test_metrics_with_a_further_name(two_ipus, kind):
    """`compute_metrics` of a pipelined model may add some; numbers are stock Keras's."""

    class Own(kind.Model):
        def compute_metrics(self, x, y, y_pred, sample_weight=None):
            logs = dict(super().compute_metrics(x, y, y_pred, sample_weight))
            return {**logs, "mine": tf.reduce_mean(y_pred), "three": 3.0}

    x, y = models.arrays()
    y = y.astype("float32")[:, None]
    found = []
    for ours in (False, True):
        kind.utils.set_random_seed(3)
        options = {"gradient_accumulation_reduction_method": "mean"}
        options["gradient_accumulation_steps_per_replica"] = 8
        with two_ipus.scope() if ours else contextlib.nullcontext():
            model = stages(kind, 2, Own, **options if ours else {})
            steps = 8 if ours else 1
            sgd = kind.optimizers.SGD(0.01)
            model.compile(sgd, "mse", jit_compile=True, steps_per_execution=steps)
        batch = 8 if ours else 64
        model.fit(x, y, batch, epochs=2, verbose=0, shuffle=False)
        history = model.evaluate(x, y, 8, verbose=0, return_dict=True)
        found.append((history, model.get_weights()))

    (stock, stock_weights), (logs, weights) = found
    assert logs.keys() == stock.keys() >= {"loss", "mine", "three"}
    assert logs == pytest.approx(stock, rel=1e-4)
    for each, other in zip(stock_weights, weights, strict=True):
        np.testing.assert_allclose(other, each, 1e-4, 1e-6)


def test_a_pipeline_is_built_again(two_ipus, kind):
    """When Keras's function of fit is renewed; those of other calls remain."""
    with two_ipus.scope():
        model = stages(kind, 2, gradient_accumulation_steps_per_replica=4)
        model.compile("sgd", "mse", steps_per_execution=8)
    programs = []
    for renews in (False, False, True):
        if renews:
            model.make_train_function(force=True)
        model.fit(models.dataset(), verbose=0, shuffle=False)
        model.evaluate(models.dataset(), verbose=0)
        programs.append(dict(model.__dict__["_ipufeed"].programs))

    first, second, third = programs
    assert first == second
    assert first.keys() == third.keys()
    assert [first[key] is third[key] for key in first] == [False, True]
