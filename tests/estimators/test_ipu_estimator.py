"""IPUEstimator: training, evaluation and prediction against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu import optimizers
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig

from ipufeed.executable import stats

v1 = tf.compat.v1
RATE, BATCH = 0.1, 8
random = np.random.default_rng(1)
INPUTS = random.normal(size=(40, 3)).astype(np.float32)
TARGETS = (INPUTS @ [[1.0], [-2.0], [0.5]]).astype(np.float32)


@pytest.fixture(params=["v2 behavior", "v1 behavior"])
def behavior(request, monkeypatch):
    """Both of what a program can set before its first graph."""
    if request.param == "v1 behavior":
        v1.disable_control_flow_v2()
        v1.disable_resource_variables()
        yield
        v1.enable_control_flow_v2()
        v1.enable_resource_variables()
    else:
        yield


@pytest.fixture
def lines(caplog):
    """What estimators log."""
    caplog.set_level("INFO", logger="tensorflow")
    return lambda: caplog.messages


@pytest.fixture(autouse=True)
def one_ipu():
    """Whatever another test has configured."""
    of(1).configure_ipu_system()


def input_fn(mode, params):
    """Batches of the samples in order, in training again and again."""
    data = tf.data.Dataset.from_tensor_slices((INPUTS, TARGETS))
    data = data.repeat() if mode == tf.estimator.ModeKeys.TRAIN else data
    return data.batch(params.get("batch_size", BATCH), drop_remainder=True)


def model_fn(features, labels, mode, params):
    """A linear model, in the style of a program for tf.estimator."""
    weights = v1.get_variable("weights", [3, 1], initializer=v1.zeros_initializer())
    outputs = features @ weights
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode, predictions={"outputs": outputs, "inputs": features}
        )
    loss = tf.reduce_mean(tf.square(outputs - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"error": v1.metrics.mean_absolute_error(labels, outputs)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = v1.train.GradientDescentOptimizer(RATE)
    if params.get("crosses"):
        optimizer = optimizers.CrossReplicaOptimizer(optimizer)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=optimizer.minimize(loss)
    )


def batches(size=BATCH):
    """Yields the batches of an epoch."""
    for start in range(0, len(INPUTS) - size + 1, size):
        yield INPUTS[start : start + size], TARGETS[start : start + size]


def trained(steps, size=BATCH):
    """Returns the weights after some steps, and the loss of each step."""
    weights, losses, epoch = np.zeros([3, 1]), [], list(batches(size))
    for step in range(steps):
        inputs, targets = epoch[step % len(epoch)]
        error = inputs @ weights - targets
        losses.append(np.mean(error**2))
        weights = weights - RATE * 2 * inputs.T @ error / size
    return weights, losses


def made(folder, iterations=1, model=model_fn, params=None, sizes=None, **settings):
    """Returns an estimator that saves into a folder."""
    config = RunConfig(IPURunConfig(iterations, **settings), model_dir=str(folder))
    return IPUEstimator(model, config=config, params=params, **(sizes or {}))


def of(ipus):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    return config


@pytest.mark.parametrize("iterations", [pytest.param(1, marks=pytest.mark.long), 4])
def test_training_evaluation_and_prediction_equal_numpy(tmp_path, iterations, behavior):
    estimator = made(tmp_path, iterations)
    weights, _ = trained(12)
    outputs = INPUTS @ weights

    assert estimator.train(input_fn, steps=4) is estimator
    estimator.train(input_fn, max_steps=12)
    # Five batches: the second loop of four ends with the dataset.
    evaluated = estimator.evaluate(input_fn)
    predicted = list(estimator.predict(input_fn))

    weights, _ = continued(4, 8)
    outputs = INPUTS @ weights
    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), weights, rtol=1e-5
    )
    assert estimator.get_variable_names() == ["global_step", "weights"]
    assert evaluated["global_step"] == 12
    np.testing.assert_allclose(
        evaluated["loss"], np.mean((outputs - TARGETS) ** 2), 1e-5
    )
    np.testing.assert_allclose(
        evaluated["error"], np.mean(abs(outputs - TARGETS)), 1e-5
    )
    assert len(predicted) == len(INPUTS)
    np.testing.assert_allclose([each["outputs"] for each in predicted], outputs, 1e-4)
    np.testing.assert_array_equal([each["inputs"] for each in predicted], INPUTS)


def continued(*calls):
    """Returns the weights after several calls of train: each reads from the beginning."""
    weights, losses, epoch = np.zeros([3, 1]), [], list(batches())
    for steps in calls:
        for step in range(steps):
            inputs, targets = epoch[step % len(epoch)]
            error = inputs @ weights - targets
            losses.append(np.mean(error**2))
            weights = weights - RATE * 2 * inputs.T @ error / BATCH
    return weights, losses


def test_loss_of_a_run_is_the_mean_of_its_steps(tmp_path, lines):
    made(tmp_path, 4).train(input_fn, steps=8)

    _, losses = trained(8)
    (line,) = [each for each in lines() if each.startswith("Loss for final step")]
    np.testing.assert_allclose(
        float(line.rpartition(":")[2].strip(" .")), np.mean(losses[4:]), rtol=1e-5
    )


def test_program_is_compiled_once_for_all_runs(tmp_path):
    made(tmp_path, 2).train(input_fn, steps=2)
    first = stats().compiles
    made(tmp_path / "other", 2).train(input_fn, steps=8)

    assert stats().compiles == first


def test_training_ends_with_the_dataset(tmp_path):
    def once(params):
        return input_fn("eval", params)

    estimator = made(tmp_path, 2)
    estimator.train(once)

    # Five batches are two loops of two; the fifth updates nothing.
    assert estimator.get_variable_value("global_step") == 4
    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), trained(4)[0], rtol=1e-5
    )


def test_training_stops_at_max_steps(tmp_path, lines):
    estimator = made(tmp_path, 2)
    estimator.train(input_fn, max_steps=4)
    estimator.train(input_fn, max_steps=4)

    assert "Skipping training since max_steps has already saved." in lines()
    with pytest.raises(ValueError, match=r"steps \(3\) must be a multiple of iter"):
        estimator.train(input_fn, max_steps=7)
    assert estimator.get_variable_value("global_step") == 4


def test_replicas_train_one_model(tmp_path):
    estimator = made(
        tmp_path,
        2,
        params={"crosses": True},
        ipu_options=of(2),
        num_replicas=2,
        sizes={"train_batch_size": 16, "eval_batch_size": 16},
    )
    estimator.train(input_fn, steps=4)
    evaluated = estimator.evaluate(input_fn, steps=2)

    # Two replicas with batches of 8: a step is one of 16, in the dataset's order.
    order = np.concatenate([INPUTS] * 2), np.concatenate([TARGETS] * 2)
    weights = np.zeros([3, 1])
    for start in range(0, 64, 16):
        inputs, targets = (each[start : start + 16] for each in order)
        weights = weights - RATE * 2 * inputs.T @ (inputs @ weights - targets) / 16
    np.testing.assert_allclose(
        estimator.get_variable_value("weights"), weights, rtol=1e-4
    )
    errors = (INPUTS @ weights - TARGETS)[:32]
    np.testing.assert_allclose(evaluated["loss"], np.mean(errors**2), rtol=1e-4)
    np.testing.assert_allclose(evaluated["error"], np.mean(abs(errors)), rtol=1e-4)


def test_device_must_have_the_ipus_of_the_program(tmp_path):
    of(2).configure_ipu_system()
    with pytest.raises(ValueError, match=r"configured with 2 IPUs.*num_replicas \(1\)"):
        made(tmp_path).train(input_fn, steps=1)


def test_replicas_need_a_reduction(tmp_path):
    estimator = made(tmp_path, ipu_options=of(2), num_replicas=2)

    with pytest.raises(
        ValueError, match=r"wrap the optimizer in .*CrossReplicaOptimizer"
    ):
        estimator.train(input_fn, steps=1)


def test_metrics_of_the_host_get_each_step(tmp_path):
    seen = []

    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        weights = v1.trainable_variables()[0]

        def metrics(labels, outputs):
            seen.append(labels.device)
            return {"error": v1.metrics.mean_absolute_error(labels, outputs)}

        tensors = {"labels": labels, "outputs": features @ weights}
        return IPUEstimatorSpec(mode, loss=spec.loss, eval_metrics=(metrics, tensors))

    made(tmp_path, 2).train(input_fn, steps=2)
    found = made(tmp_path, 2, model).evaluate(input_fn)

    outputs = INPUTS @ trained(2)[0]
    assert "CPU" in seen[0]
    np.testing.assert_allclose(found["error"], np.mean(abs(outputs - TARGETS)), 1e-5)


def test_host_call_runs_after_each_step(tmp_path):
    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)

        def add(loss):
            total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
            return total.assign_add(loss)

        return IPUEstimatorSpec(
            mode, loss=spec.loss, train_op=spec.train_op, host_call=(add, [spec.loss])
        )

    estimator = made(tmp_path, 1, model)
    estimator.train(input_fn, steps=3)

    np.testing.assert_allclose(
        estimator.get_variable_value("total"), sum(trained(3)[1]), rtol=1e-5
    )
    with pytest.raises(
        ValueError, match=r"`host_call` is not allowed with an iter.* of 2"
    ):
        made(tmp_path / "b", 2, model).train(input_fn, steps=2)


def test_model_function_reads_the_step_before_the_loop(tmp_path):
    def model(features, labels, mode):
        weights = v1.get_variable("weights", [3, 1], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(features @ weights)
        step = tf.cast(v1.train.get_global_step(), tf.float32)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=weights.assign_add(tf.fill([3, 1], step))
        )

    estimator = made(tmp_path, 2, model)
    estimator.train(input_fn, steps=6)

    # 0 twice, 2 twice, 4 twice.
    assert estimator.get_variable_value("weights").ravel().tolist() == [12.0] * 3


def test_model_function_must_not_change_the_step(tmp_path):
    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        optimizer = v1.train.GradientDescentOptimizer(RATE)
        train_op = optimizer.minimize(spec.loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=spec.loss, train_op=train_op)

    with pytest.raises(ValueError, match=r"Illegal increment of the `global_step` var"):
        made(tmp_path, 2, model).train(input_fn, steps=2)


def test_hooks_of_the_caller_and_of_the_model_are_called(tmp_path):
    class Counts(v1.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context, run_values):
            self.runs += 1

    of_model = Counts()

    def model(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        return spec._replace(
            training_hooks=(of_model,),
            evaluation_hooks=(of_model,),
            prediction_hooks=(of_model,),
        )

    estimator, hook = made(tmp_path, 2, model), Counts()
    estimator.train(input_fn, hooks=[hook], steps=4)
    assert (hook.runs, of_model.runs) == (2, 2)
    estimator.evaluate(input_fn, steps=4, hooks=[hook])
    assert (hook.runs, of_model.runs) == (4, 4)
    next(estimator.predict(input_fn, hooks=[hook]))
    assert (hook.runs, of_model.runs) == (5, 5)
    with pytest.raises(TypeError, match=r"`hooks` is int"):
        estimator.train(input_fn, hooks=[1], steps=2)


@pytest.mark.parametrize(("arguments", "last"), [((4, None), 4), ((None, 5), 6)])
def test_a_hook_stops_training_at_its_step(tmp_path, arguments, last):
    """Or at the end of the loop that has it."""
    estimator = made(tmp_path, 2)
    hook = v1.train.StopAtStepHook(*arguments)
    estimator.train(input_fn, hooks=[hook], steps=10)
    assert estimator.get_variable_value("global_step") == last


def test_training_begins_with_the_weights_of_another_model(tmp_path):
    made(tmp_path / "a").train(input_fn, steps=5)
    config = RunConfig(model_dir=str(tmp_path / "b"))
    warm = IPUEstimator(model_fn, config=config, warm_start_from=tmp_path / "a")
    warm.train(input_fn, steps=5)

    assert warm.get_variable_value("global_step") == 5
    np.testing.assert_allclose(
        warm.get_variable_value("weights"), trained(10)[0], rtol=1e-5
    )


def test_predictions_are_taken_by_name_batch_and_number(tmp_path):
    estimator = made(tmp_path, 2)
    estimator.train(input_fn, steps=2)

    (first,) = estimator.predict(input_fn, "outputs", num_predictions=1)
    assert list(first) == ["outputs"]
    of_batches = list(estimator.predict(input_fn, yield_single_examples=False))
    assert [each["inputs"].shape for each in of_batches] == [(BATCH, 3)] * 5
    with pytest.raises(ValueError, match=r"Expected to run at least one output from"):
        estimator.predict(input_fn, ["other"])
    # Between two predictions the caller's own graph is the default one.
    graph = v1.get_default_graph()
    taken = estimator.predict(input_fn)
    next(taken)
    assert v1.get_default_graph() is graph or tf.executing_eagerly()
    taken.close()


def test_predictions_without_a_batch_are_yielded_whole(tmp_path):
    def model(features, mode):
        return tf.estimator.EstimatorSpec(mode, predictions=tf.reduce_sum(features))

    def features(params):
        return tf.data.Dataset.from_tensor_slices(INPUTS).batch(BATCH, True)

    estimator = made(tmp_path, 5, model)
    with pytest.raises(ValueError, match=r"yield_single_examples=False"):
        list(estimator.predict(features))
    sums = list(estimator.predict(features, yield_single_examples=False))
    np.testing.assert_allclose(
        sums, [np.sum(inputs) for inputs, _ in batches()], rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"non-dict predictions"):
        estimator.predict(features, "a")


def test_features_can_be_a_dict(tmp_path):
    def data(mode):
        parts = {"a": INPUTS, "b": TARGETS}
        return tf.data.Dataset.from_tensor_slices(parts).batch(BATCH, True)

    def model(features, mode):
        assert sorted(features) == ["a", "b"]
        return tf.estimator.EstimatorSpec(mode, predictions=features["b"])

    found = list(made(tmp_path, 5, model).predict(data))
    np.testing.assert_array_equal(found, TARGETS)
