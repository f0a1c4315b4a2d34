"""Pipelined models equal models that are not: each kind of model and of assignment."""

import logging

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    PipelineStage,
    SequentialLayerPipelineStageAssignment,
)

layers = keras.layers


@pytest.fixture(scope="module")
def strategy():
    models.configure(2)
    return IPUStrategy()


def sequential():
    return keras.Sequential(
        [
            keras.Input((models.FEATURES,)),
            layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            layers.Dense(8, activation="relu"),
            layers.Dense(models.CLASSES, kernel_regularizer="l2"),
        ],
        name="three",
    )


def functional(stage=lambda k: tf.name_scope("unused")):
    """A skip past the boundary, an operation that is not a layer, a nested model."""
    inputs = keras.Input((models.FEATURES,))
    with stage(0):
        x = layers.Dense(8, activation="relu", name="first")(inputs)
        y = layers.Dense(8, name="second")(x)
    nested_in = keras.Input((8,))
    nested = keras.Model(
        nested_in, layers.Dense(8, name="inner")(nested_in), name="nested"
    )
    with stage(1):
        z = nested(x + y)
        outputs = layers.Dense(models.CLASSES, name="last")(
            layers.Add(name="sum")([z, x])
        )
    return keras.Model(inputs, outputs, name="skip")


class Subclass(keras.Model):
    def __init__(self, stage=lambda k: tf.name_scope("unused")):
        super().__init__(name="own")
        self.stage = stage
        self.one = layers.Dense(8, activation="relu", name="one")
        self.two = layers.Dense(models.CLASSES, name="two")

    def call(self, inputs, training=None):
        with self.stage(0):
            x = self.one(inputs)
        with self.stage(1):
            return self.two(x)


def assigned_by_list():
    model = sequential()
    model.set_pipeline_stage_assignment([0, 0, 1])
    return model


def assigned_by_layer():
    inputs = keras.Input((models.FEATURES,))
    with PipelineStage(0):
        one = layers.Dense(8, activation="relu")
    with PipelineStage(1):
        two = layers.Dense(models.CLASSES)
    return keras.Model(inputs, two(one(inputs)))


def plain_of_layers():
    inputs = keras.Input((models.FEATURES,))
    hidden = layers.Dense(8, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(models.CLASSES)(hidden))


@pytest.mark.long
@pytest.mark.parametrize(
    ("pipelined", "plain"),
    [
        (assigned_by_list, sequential),
        (lambda: functional(PipelineStage), functional),
        (lambda: Subclass(PipelineStage), Subclass),
        (assigned_by_layer, plain_of_layers),
    ],
    ids=["sequential", "functional", "subclass", "layers"],
)
def test_a_pipeline_equals_the_model_that_is_not_split(strategy, pipelined, plain):
    """Weights after two epochs of accumulation 4, evaluate and predict."""
    with strategy.scope():
        model = models.compiled(pipelined, "adam", steps_per_execution=8)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4,
            gradient_accumulation_reduction_method="mean",
        )
    steps = models.Steps()
    model.fit(models.dataset(4), epochs=2, verbose=0, shuffle=False, callbacks=[steps])
    stock = models.compiled(plain, "adam", jit_compile=False)
    stock.fit(models.dataset(16), epochs=2, verbose=0, shuffle=False)

    assert model.__dict__["_ipufeed"].pipeline.stages == 2
    assert steps.ends == [7, 15] * 2
    assert models.furthest(stock.get_weights(), model.get_weights()) < 1e-5
    assert int(model.optimizer.iterations.numpy()) == 8
    want = stock.evaluate(models.dataset(4), verbose=0)
    assert model.evaluate(models.dataset(4), verbose=0) == pytest.approx(want, rel=1e-4)
    predicted = model.predict(models.dataset(4), verbose=0)
    assert np.allclose(
        predicted, stock.predict(models.dataset(4), verbose=0), atol=1e-5
    )
    programs = model.__dict__["_ipufeed"].programs.values()
    assert {each.function.experimental_get_tracing_count() for each in programs} == {1}


@pytest.fixture(scope="module")
def piped(strategy):
    """A Sequential in two stages, built and compiled."""
    with strategy.scope():
        model = models.compiled(sequential, steps_per_execution=8)
    model.set_pipeline_stage_assignment([0, 0, 1])
    return model


def test_results_can_be_accumulated_on_the_device(piped):
    """One result for each update, of means; callbacks are synchronous."""
    piped.set_pipelining_options(4, accumulate_outfeed=True)
    piped.set_asynchronous_callbacks(True)
    steps = models.Steps()
    piped.fit(models.dataset(), verbose=0, shuffle=False, callbacks=[steps])
    found = piped.evaluate(models.dataset(), verbose=0)
    piped.set_pipelining_options(4, accumulate_outfeed=False)
    values = []
    keep = keras.callbacks.LambdaCallback(
        on_test_batch_end=lambda batch, logs: values.append(float(logs["loss"]))
    )
    piped.evaluate(models.dataset(), verbose=0, callbacks=[keep])
    piped.set_asynchronous_callbacks(False)

    assert steps.ends == [7]
    assert len(values) == 8
    assert found[0] == pytest.approx(np.mean(values), rel=1e-4)


def test_the_assignment_is_read_written_and_forgotten(strategy, piped, caplog):
    """In the order of execution, as objects with names."""
    found = piped.get_pipeline_stage_assignment()
    assert [each.pipeline_stage for each in found] == [0, 0, 1]
    assert str(found[2]) == (
        f"Layer: {piped.layers[2].name} is assigned to pipeline stage: 1"
    )
    found[1].pipeline_stage = 1
    piped.set_pipeline_stage_assignment(found)
    again = piped.get_pipeline_stage_assignment()
    assert [each.pipeline_stage for each in again] == [0, 1, 1]
    assert all(
        isinstance(each, SequentialLayerPipelineStageAssignment) for each in again
    )
    piped.set_pipeline_stage_assignment([0, 0, 1])

    with strategy.scope():
        model = functional()
    found = model.get_pipeline_stage_assignment()
    names = [each.layer.name for each in found]
    assert names == ["first", "second", "nested", "sum", "last"]
    assert [each.is_nested_model for each in found] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert [each.name for each in found[3].inbound_layers] == ["nested", "first"]
    assert str(found[2]) == (
        "Model: nested (node index 0) has the following pipeline stage assignments:\n"
        "Layer: inner (node index 0) is assigned to pipeline stage: None"
    )
    for each in found:
        for one in each.pipeline_stage_assignments if each.is_nested_model else [each]:
            one.pipeline_stage = int(each.layer.name in ("sum", "last"))
    model.set_pipeline_stage_assignment(found)
    printed = []
    model.print_pipeline_stage_assignment_summary(print_fn=printed.append)
    model.reset_pipeline_stage_assignment()
    found = model.get_pipeline_stage_assignment()
    assert found[0].pipeline_stage is None

    assert printed[:4] == [
        'Model: "skip"',
        "_" * 89,
        f"{'Layer (type) (node index)':35}{'Input Layers':36}Pipeline Stage",
        "=" * 89,
    ]
    assert printed[4].split() == ["first", "(Dense)", "(0)", "input_layer", "0"] or (
        printed[4].split() == ["first", "(Dense)", "(0)", "0"]
    )
    assert 'Nested Model: "nested"' in printed


def layer_of(number, kind=FunctionalLayerPipelineStageAssignment):
    def change(found):
        found[number] = kind(found[number].layer, 0, 0)
        return found

    return change


def stages(*numbers):
    def change(found):
        for each, stage in zip(found, numbers, strict=True):
            inner = each.pipeline_stage_assignments if each.is_nested_model else [each]
            for one in inner:
                one.pipeline_stage = stage
        return found

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: tuple(found), "needs to be a list"),
        (lambda found: found[1:], r"\(4\) does not match the number of .* \(5\)"),
        (
            layer_of(2),
            "must be an instance of `FunctionalNestedModelPipelineStageAssign",
        ),
        (
            layer_of(0, ModelLayerPipelineStageAssignment),
            "Instead the assignment was of",
        ),
        (
            lambda found: [found[1], found[0], *found[2:]],
            r"post-order.*second != first",
        ),
        (stages(0, 0, 0, None, 1), "Layer sum with node_index 0 has not been assigned"),
        (stages(1, 0, 1, 1, 1), "Layer second in pipeline stage 0 has a dependency"),
    ],
)
def test_assignments_that_are_refused(strategy, change, words):
    """In the words of the original."""
    with strategy.scope():
        model = functional()
    found = stages(0, 0, 1, 1, 1)(model.get_pipeline_stage_assignment())
    assert isinstance(found[2], FunctionalNestedModelPipelineStageAssignment)

    with pytest.raises(ValueError, match=words):
        model.set_pipeline_stage_assignment(change(found))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 1, 1], "to the 0th pipeline stage, however it was assigned to 1"),
        ([0, 2, 2], "can only be assigned to the same pipeline stage as the previous"),
        (
            [0, 1, 0],
            "however the previous layer in the Sequential model was assigned to",
        ),
        ([0, 1], "does not match the number of layers"),
    ],
)
def test_assignments_of_a_sequential_that_are_refused(piped, given, words):
    """Its stages are in the order of its layers."""
    with pytest.raises(ValueError, match=words):
        piped.set_pipeline_stage_assignment(given)
    piped.set_pipeline_stage_assignment([0, 0, 1])


def test_what_is_refused_when_a_pipeline_is_to_run(strategy):
    """No accumulation, a hole, a layer without a stage."""
    with strategy.scope():
        model = models.compiled(assigned_by_list, steps_per_execution=8)
        with pytest.raises(
            ValueError, match="has not been set through `set_pipelining"
        ):
            model.fit(models.dataset(), verbose=0, shuffle=False)
        model.set_pipelining_options(3)
        with pytest.raises(RuntimeError, match="not divisible by"):
            model.fit(models.dataset(), verbose=0, shuffle=False)
        hole = functional(lambda k: PipelineStage(2 * k))
        hole.compile("sgd", models.cross_entropy())
        with pytest.raises(RuntimeError, match="All stages in a pipeline must have at"):
            hole.evaluate(models.dataset(), verbose=0)
        inputs = keras.Input((models.FEATURES,))
        with PipelineStage(0):
            x = layers.Dense(8)(inputs)
        part = keras.Model(inputs, layers.Dense(4, name="bare")(x))
        part.compile("sgd", models.cross_entropy())
        with pytest.raises(ValueError, match="However, bare has not been assigned to"):
            part.evaluate(models.dataset(), verbose=0)
        with pytest.raises(RuntimeError, match="has not been built yet"):
            Subclass().get_pipeline_stage_assignment()


def test_layers_that_are_added_have_no_stage(strategy, caplog):
    """The assignment of a Sequential is forgotten, and the log says so."""
    with strategy.scope():
        model = assigned_by_list()
    with caplog.at_level(logging.INFO, "ipufeed"):
        model.add(layers.Dense(2))

    assert "assignment is no longer valid" in caplog.text
    found = model.get_pipeline_stage_assignment()
    assert [each.pipeline_stage for each in found] == [None] * 4


def test_averages_in_a_pipeline_are_warned_of(strategy, caplog):
    """They see each mini-batch in the order of the schedule."""
    with strategy.scope(), caplog.at_level(logging.WARNING, "ipufeed"):
        model = keras.Sequential(
            [keras.Input((6,)), layers.BatchNormalization(), layers.Dense(4)]
        )
        model.compile("sgd", models.cross_entropy(), steps_per_execution=8)
        model.set_pipeline_stage_assignment([0, 1])
        model.predict(models.dataset(), verbose=0)

    output = [record.getMessage() for record in caplog.records]
    assert any("moving statistics in pipelined models" in line for line in output)


def test_where_a_stage_may_be_opened(strategy):
    """In the scope of a strategy, not in another stage; from 0."""
    with pytest.raises(ValueError, match="-1 is not a valid pipeline stage"):
        PipelineStage(-1)
    with (
        pytest.raises(RuntimeError, match="from within an IPUStrategy"),
        PipelineStage(0),
    ):
        pass
    with (
        strategy.scope(),
        PipelineStage(0),
        pytest.raises(RuntimeError, match="must not be nested"),
        PipelineStage(1),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"gradient_accumulation_count": 2},
            "Set the `gradient_accumulation_steps_per",
        ),
        ({"inputs": []}, "Found `inputs` key .* automatically set by Keras"),
        ({"outfeed_mask": []}, "Found `outfeed_mask` key .* not compatible with Keras"),
        ({"device_mapping": (0, 1)}, "Expected `device_mapping` to be a list of int"),
        ({"gradient_accumulation_steps_per_replica": -1}, "but got -1 instead"),
    ],
)
def test_options_of_pipelines_that_are_refused(piped, arguments, words):
    """Each error says what to use."""
    with pytest.raises(ValueError, match=words):
        piped.set_pipelining_options(**arguments)
