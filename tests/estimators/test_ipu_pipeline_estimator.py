"""IPUPipelineEstimator: its pipelines against NumPy, and what it refuses."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu import optimizers, pipelining_ops
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_pipeline_estimator import (
    IPUPipelineEstimator,
    IPUPipelineEstimatorSpec,
)
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

from ipufeed import no_effect
from ipufeed.errors import RefusedError

pytestmark = pytest.mark.long

v1 = tf.compat.v1
RATE, COUNT, BATCH = 0.01, 4, 4
random = np.random.default_rng(2)
INPUTS = random.normal(size=(64, 3)).astype(np.float32)
TARGETS = (INPUTS @ [[1.0], [-2.0], [0.5]]).astype(np.float32)


def input_fn(mode):
    data = tf.data.Dataset.from_tensor_slices((INPUTS, TARGETS))
    data = data.repeat() if mode == tf.estimator.ModeKeys.TRAIN else data
    return data.batch(BATCH, drop_remainder=True)


def model_fn(mode, params):
    """Two stages: twice the inputs, and a linear model of them."""

    def first(inputs, targets):
        return 2 * inputs, targets

    def second(inputs, targets):
        weights = v1.get_variable("weights", [3, 1], initializer=v1.zeros_initializer())
        outputs = inputs @ weights
        if mode == tf.estimator.ModeKeys.PREDICT:
            return outputs
        loss = tf.reduce_mean(tf.square(outputs - targets))
        return loss if mode == tf.estimator.ModeKeys.TRAIN else (loss, outputs, targets)

    def optimizer(loss):
        return pipelining_ops.OptimizerFunctionOutput(
            v1.train.GradientDescentOptimizer(RATE), loss
        )

    def metrics(loss, outputs, targets):
        return {
            "loss": v1.metrics.mean(loss),
            "error": v1.metrics.mean_absolute_error(targets, outputs),
        }

    return IPUPipelineEstimatorSpec(
        mode,
        computational_stages=[first, second],
        gradient_accumulation_count=COUNT,
        optimizer_function=optimizer,
        eval_metrics_fn=metrics,
        **params,
    )


def made(folder, iterations, params=None, model=model_fn):
    config = IPUConfig()
    config.auto_select_ipus = 2
    settings = IPURunConfig(iterations, config, num_shards=2)
    return IPUPipelineEstimator(
        model, config=RunConfig(settings, model_dir=str(folder)), params=params
    )


def trained(executions):
    """Returns the weights after some executions, and the loss of each mini-batch."""
    weights, losses, start = np.zeros([3, 1]), [], 0
    for _ in range(executions):
        gradient = 0
        for _ in range(COUNT):
            inputs = 2 * INPUTS[start : start + BATCH]
            error = inputs @ weights - TARGETS[start : start + BATCH]
            losses.append(np.mean(error**2))
            gradient = gradient + 2 * inputs.T @ error / BATCH
            start = (start + BATCH) % len(INPUTS)
        weights = weights - RATE * gradient
    return weights, losses


def test_pipeline_trains_evaluates_and_predicts(tmp_path, caplog):
    caplog.set_level("INFO", logger="tensorflow")
    estimator = made(tmp_path, 2 * COUNT)
    estimator.train(input_fn, steps=4 * COUNT)
    evaluated = estimator.evaluate(input_fn)
    predicted = list(estimator.predict(input_fn))

    weights, losses = trained(4)
    outputs = 2 * INPUTS @ weights
    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), weights, rtol=1e-4
    )
    assert evaluated["global_step"] == 4 * COUNT
    np.testing.assert_allclose(
        evaluated["loss"], np.mean((outputs - TARGETS) ** 2), 1e-4
    )
    np.testing.assert_allclose(
        evaluated["error"], np.mean(abs(outputs - TARGETS)), 1e-4
    )
    np.testing.assert_allclose(predicted, outputs, rtol=1e-3)
    (line,) = [
        each for each in caplog.messages if each.startswith("Loss for final step")
    ]
    np.testing.assert_allclose(
        float(line.rpartition(":")[2].strip(" .")),
        np.mean(losses[2 * COUNT :]),
        rtol=1e-4,
    )


def test_the_loss_of_the_metrics_may_be_a_tensor(tmp_path):
    """As in Graphcore's programs: its mean over the steps is reported."""

    def model(mode, params):
        def metrics(loss, outputs, targets):
            return {"loss": loss, "error": v1.metrics.mean(outputs - targets)}

        return model_fn(mode, params)._replace(eval_metrics_fn=metrics)

    found = made(tmp_path, COUNT, model=model).evaluate(input_fn)
    np.testing.assert_allclose(found["loss"], np.mean(TARGETS**2), 1e-4)
    np.testing.assert_allclose(found["error"], -np.mean(TARGETS), 1e-4)


@pytest.mark.parametrize("iterations", [2, 6])
def test_run_is_whole_executions(tmp_path, iterations):
    with pytest.raises(
        ValueError, match=rf"\({iterations}\) must be a multiple of grad"
    ):
        made(tmp_path, iterations).train(input_fn, steps=iterations)


@pytest.mark.parametrize("iterations", [COUNT, 2 * COUNT])
def test_whole_executions_count_if_the_dataset_ends(tmp_path, iterations):
    """Else it were chance how far the last stage comes in the one in which it ends."""
    estimator = made(tmp_path, iterations)
    most = 3 * COUNT * BATCH
    for batches in (3 * COUNT, 3 * COUNT + 2, 4 * COUNT - 1):
        data = functools.partial(lambda most: input_fn("infer").take(most), batches)
        assert len(list(estimator.predict(data))) == most
    found = estimator.evaluate(lambda: input_fn("eval").take(4 * COUNT - 1))
    np.testing.assert_allclose(found["loss"], np.mean(TARGETS[:most] ** 2), 1e-4)
    with pytest.raises(ValueError, match="fewer than those of an execution"):
        estimator.evaluate(lambda: input_fn("eval").take(COUNT - 1))


@pytest.mark.parametrize("crosses", [True, False])
def test_replicas_need_a_reduction(tmp_path, crosses):
    """The weights are those of mini-batches of both replicas."""
    config = IPUConfig()
    config.auto_select_ipus = 4
    settings = IPURunConfig(COUNT, config, num_replicas=2, num_shards=2)

    def model(mode, params):
        spec = model_fn(mode, params)

        def optimizer(loss):
            sgd = v1.train.GradientDescentOptimizer(RATE)
            return pipelining_ops.OptimizerFunctionOutput(
                optimizers.CrossReplicaOptimizer(sgd) if crosses else sgd, loss
            )

        return spec._replace(optimizer_function=optimizer)

    estimator = IPUPipelineEstimator(
        model, config=RunConfig(settings, model_dir=str(tmp_path))
    )
    if not crosses:
        with pytest.raises(ValueError, match="wrap the optimizer in cross_replica"):
            estimator.train(input_fn, steps=COUNT)
        return
    estimator.train(input_fn, steps=COUNT)
    gradient = 0
    for start in range(0, 2 * COUNT * BATCH, BATCH):
        part = slice(start, start + BATCH)
        gradient += 2 * (2 * INPUTS[part]).T @ -TARGETS[part] / BATCH / 2
    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), -RATE * gradient, rtol=1e-4
    )


def test_evaluate_does_not_warn_of_the_reduction(tmp_path, caplog):
    """A spec has it in each mode, as it has the optimizer function."""
    no_effect.forget()
    estimator = made(tmp_path, COUNT, {"reduction_method": "mean"})
    estimator.train(input_fn, steps=COUNT)
    estimator.evaluate(input_fn)
    list(estimator.predict(input_fn))

    assert "reduction_method" not in caplog.text
    with pytest.raises(ValueError, match="Cannot parse best as one of"):
        made(tmp_path, COUNT, {"reduction_method": "best"}).evaluate(input_fn)


def test_arguments_of_the_pipeline_are_passed_on(tmp_path):
    schedule = pipelining_ops.PipelineSchedule.Sequential
    estimator = made(tmp_path, COUNT, {"pipeline_schedule": schedule})
    estimator.train(input_fn, steps=COUNT)

    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), trained(1)[0], rtol=1e-4
    )
    with pytest.raises(ValueError, match="`repeat_count`: it is iterations_per_loop"):
        made(tmp_path, COUNT, {"repeat_count": 2}).train(input_fn, steps=COUNT)


STAGES = [tf.identity, tf.identity]


def test_the_count_has_the_name_of_older_releases():
    spec = IPUPipelineEstimatorSpec("infer", STAGES, pipeline_depth=3)
    assert spec.gradient_accumulation_count == 3
    assert spec.pipeline_op_kwargs == {}
    with pytest.raises(TypeError, match="`pipeline_depth` is the older name of"):
        IPUPipelineEstimatorSpec("infer", STAGES, 3, pipeline_depth=3)


@pytest.mark.parametrize(
    ("mode", "arguments", "error", "text"),
    [
        ("train", {}, ValueError, "needs gradient_accumulation_count"),
        (
            "train",
            {"gradient_accumulation_count": 2},
            ValueError,
            "needs optimizer_function in the mode 'train'",
        ),
        (
            "eval",
            {"gradient_accumulation_count": 2},
            ValueError,
            "needs eval_metrics_fn in the mode 'eval'",
        ),
        (
            "infer",
            {"gradient_accumulation_count": 2, "eval_metrics_fn": 1},
            TypeError,
            "`eval_metrics_fn` must be a function",
        ),
        (
            "infer",
            {"gradient_accumulation_count": 2, "accumulate_outfeed": True},
            RefusedError,
            "no argument `accumulate_outfeed`",
        ),
    ],
)
def test_spec_needs_what_its_mode_needs(mode, arguments, error, text):
    with pytest.raises(error, match=text):
        IPUPipelineEstimatorSpec(mode, STAGES, **arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"computational_stages": 5},
            TypeError,
            "needs to be a list or a tuple, got i",
        ),
        ({"computational_stages": [1, 2]}, TypeError, "must be a function, got int"),
        ({"computational_stages": []}, ValueError, "at least two .*stages, got 0"),
        (
            {"gradient_accumulation_count": "x"},
            TypeError,
            "must be an integer .*got str",
        ),
        ({"gradient_accumulation_count": 0}, ValueError, "positive integer, got 0"),
        (
            {"device_mapping": 5},
            TypeError,
            "device_mapping argument needs to be a list",
        ),
        (
            {"device_mapping": [0]},
            ValueError,
            "mapped to an IPU: 1 mappings != 2 stages",
        ),
        (
            {"loss_accumulator_dtype": 5},
            TypeError,
            "`?loss_accumulator_dtype`? must be",
        ),
        ({"reduction_method": "x"}, ValueError, "Cannot parse x as one of"),
        ({"pipeline_schedule": "x"}, TypeError, "PipelineSchedule enum.*got 'x'. Give"),
        ({"recomputation_mode": 5}, TypeError, "RecomputationMode enum.*got 5. Give"),
        (
            {"batch_serialization_iterations": 0},
            ValueError,
            "must be a positive integer",
        ),
        (
            {"weight_update_poplar_options": 5},
            TypeError,
            "type PipelineStageOptions, bu",
        ),
        (
            {"forward_propagation_stages_poplar_options": 5},
            TypeError,
            "forward_propagation_stages_poplar_options must be a list",
        ),
        ({"name": 5}, TypeError, "`name` must be a str or None, got int 5"),
        ({"offload_activations": 3}, TypeError, "must be a bool or None, got int 3"),
        ({"outfeed_mask": [True]}, ValueError, "optimizer_function must be provided"),
        (
            {"gradient_accumulation_dtype": "int32"},
            TypeError,
            "`gradient_accumulation_dtype` must be None, a tf.DType of floating point",
        ),
        (
            {"batch_serialization_iterations": 2, "device_mapping": [0, 1]},
            NotImplementedError,
            "mapped to a single IPU",
        ),
        ({"shedule": 5}, TypeError, "no argument shedule; .*, pipeline_schedule, "),
    ],
)
def test_spec_checks_what_the_pipeline_gets(arguments, error, text):
    """When it is made, not when the estimator builds the pipeline."""
    given = {"computational_stages": STAGES, "gradient_accumulation_count": 2}
    with pytest.raises(error, match=text):
        IPUPipelineEstimatorSpec("infer", **given | arguments)
