"""Wrong options of a model are refused by the call that sets them."""

import keras_models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import PipelineStage
from ipufeed.parallel.pipeline.options import RecomputationMode
from ipufeed.parallel.pipeline.schedules import PipelineSchedule


@pytest.fixture(scope="module")
def model(strategy, kind):
    with strategy.scope():
        dense = kind.layers.Dense
        layers = [dense(3, name="one"), dense(3, name="two"), dense(1, name="three")]
        made = kind.Sequential([kind.Input((6,)), *layers])
    made.set_infeed_queue_options(prefetch_depth=3)
    return made


def options(model):
    state = model.__dict__["_ipufeed"]
    own = state.pipeline
    return (state.infeed, state.outfeed, own.options, own.device_mapping, own.given)


INFEED = "set_infeed_queue_options"
OUTFEED = "set_outfeed_queue_options"
PIPELINE = "set_pipelining_options"
ACCUMULATION = "set_gradient_accumulation_options"
WRONG = [
    (
        INFEED,
        {"depth": 3},
        r"unexpected keyword argument 'depth'. It takes device_ordinal, "
        "optimise_latency, prefetch_depth, as IPUInfeedQueue does",
    ),
    (
        INFEED,
        {"prefetch_depth": "8"},
        "prefetch_depth must be an integer, but it is '8'",
    ),
    (INFEED, {"prefetch_depth": 1000}, "prefetch_depth must be less than 256"),
    (INFEED, {"device_ordinal": 0.5}, "`device_ordinal` must be an int or None"),
    (INFEED, {"optimise_latency": 1}, "optimise_latency must be a bool, got int 1"),
    (
        OUTFEED,
        {"prefetch_depth": 3},
        "argument 'prefetch_depth'. It takes buffer_depth, optimise_latency, as IPUOut",
    ),
    (OUTFEED, {"buffer_depth": None}, "buffer depth must be an integer, got None"),
    *(
        (method, {old: 4}, f"'{old}': .* has now been removed, use `{new}`")
        for method in (PIPELINE, ACCUMULATION)
        for old, new in (
            (
                "gradient_accumulation_steps",
                "gradient_accumulation_steps_per_replica",
            ),
            (
                "experimental_normalize_gradients",
                "gradient_accumulation_reduction_method",
            ),
        )
    ),
    (
        PIPELINE,
        {"pipeline_schedule": "Grouped"},
        "pipeline_schedule .* got 'Grouped'. Give one of PipelineSchedule.Grouped, "
        "PipelineSchedule.Interleaved, PipelineSchedule.Sequential",
    ),
    (
        PIPELINE,
        {"recomputation_mode": "Auto"},
        "got 'Auto'. Give one of RecomputationMode.Auto",
    ),
    (
        PIPELINE,
        {
            "pipeline_schedule": PipelineSchedule.Interleaved,
            "recomputation_mode": (
                RecomputationMode.RecomputeAndBackpropagateInterleaved
            ),
        },
        "is not supported with the pipeline schedule Interleaved",
    ),
    (PIPELINE, {"offload_activations": "yes"}, "offload_activations must be a bool"),
    (PIPELINE, {"accumulate_outfeed": 1}, "accumulate_outfeed must be a bool, got int"),
    (
        PIPELINE,
        {"gradient_accumulation_dtype": "text"},
        "gradient_accumulation_dtype",
    ),
    (PIPELINE, {"weight_update_poplar_options": {}}, "weight_update_poplar_options"),
    (
        PIPELINE,
        {"forward_propagation_stages_poplar_options": {}},
        "must be a list or a tuple of PipelineStageOptions",
    ),
    (PIPELINE, {"continuous_weight_updates": True}, "not supported"),
    (PIPELINE, {"device_mapping": [0, "1"]}, r"list of integers.*Got \[0, '1'\]"),
    (PIPELINE, {"device_mapping": [0, True]}, "list of integers"),
    (
        ACCUMULATION,
        {"accumulation_steps": 3},
        "argument 'accumulation_steps'. It takes "
        "gradient_accumulation_steps_per_replica, .*dtype",
    ),
    (PIPELINE, {"schedule": 1}, "argument 'schedule'. It takes .*pipeline_schedule"),
    (
        PIPELINE,
        {"gradient_accumulation_steps_per_replica": "4"},
        "positive integer, but got '4' instead",
    ),
    (
        "set_gradient_accumulation_options",
        {"use_v2_gradient_accumulation_optimizer": 1},
        "must be a bool, got int 1",
    ),
]


@pytest.mark.parametrize(("method", "arguments", "words"), WRONG)
def test_a_wrong_option_is_refused_when_it_is_set(model, method, arguments, words):
    """With the valid ones; what was set before remains."""
    before = options(model)
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=words):
        getattr(model, method)(**arguments)
    assert options(model) == before


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (
            [0, None, 1],
            "Layer two with node_index 0 has not been assigned a pipeline s",
        ),
        (
            [0, "1", 1],
            r"layer two in .* an int of at least 0, or an instance .* type str",
        ),
        ([0, True, 1], "layer two in .* an int of at least 0, or .* type bool"),
        ([-1, 0, 1], "layer one in .* an int of at least 0"),
    ],
)
def test_a_layer_without_a_stage_is_named(model, stages, words):
    """Also one whose stage is not a number."""
    with pytest.raises(ValueError, match=words):
        model.set_pipeline_stage_assignment(stages)


def test_so_it_is_in_an_assignment(model):
    """Of any kind of model."""
    for stage, words in (
        ("1", "must be an int of at least 0, got '1'"),
        (None, "not b"),
    ):
        given = model.get_pipeline_stage_assignment()
        for number, each in zip((0, 0, 1), given, strict=True):
            each.pipeline_stage = number
        given[1].pipeline_stage = stage
        with pytest.raises(ValueError, match=f"(?i)layer two .*{words}"):
            model.set_pipeline_stage_assignment(given)


def test_integers_of_numpy_are_numbers(kind):
    """And the valid options are accepted, with which the model trains."""
    keras_models.configure(2)
    try:
        with IPUStrategy().scope():
            dense = kind.layers.Dense
            made = kind.Sequential([kind.Input((6,)), dense(3), dense(1)])
            made.compile("sgd", "mse", steps_per_execution=8)
        made.set_pipeline_stage_assignment([np.int64(0), np.int64(1)])
        made.set_pipelining_options(
            np.int64(4),
            device_mapping=[1, np.int32(0)],
            pipeline_schedule=PipelineSchedule.Sequential,
            recomputation_mode=RecomputationMode.Auto,
            offload_weight_update_variables=False,
            gradient_accumulation_dtype=tf.float32,
        )
        made.set_infeed_queue_options(
            prefetch_depth=np.int64(2), optimise_latency=False
        )
        made.set_outfeed_queue_options(buffer_depth=4)
        x, _ = keras_models.arrays()
        history = made.fit(x, x[:, :1], 8, verbose=0)
    finally:
        keras_models.configure(1)

    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize(
    ("last", "missing"), [(3, r"\[1, 2\]\."), (10**7, r"\[1, .*, 20\], and others")]
)
def test_a_stage_that_is_far_too_high_is_refused(strategy, kind, last, missing):
    """Without a list of all the others, which memory does not hold."""
    with strategy.scope():
        inputs = kind.Input((6,))
        with PipelineStage(0):
            x = kind.layers.Dense(3)(inputs)
        with PipelineStage(last):
            x = kind.layers.Dense(1)(x)
        made = kind.Model(inputs, x)
        made.compile("sgd", "mse", steps_per_execution=4)
        made.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        with pytest.raises(RuntimeError, match=f"no layer is assigned to {missing}"):
            made.fit(np.ones([16, 6], np.float32), np.ones([16, 1], np.float32), 4)
