"""Session hooks of an estimator, on one IPU and on several replicas."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig
from tensorflow.python.ipu.ipu_session_run_hooks import IPULoggingTensorHook

from ipufeed.device.config.config import IPUConfig
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer

pytestmark = pytest.mark.long

v1 = tf.compat.v1
ROWS = np.arange(1, 65, dtype=np.float32)[:, None] / 100
RATE = 0.1


class Notes(v1.train.SessionRunHook):
    """Notes its calls, each with the global step."""

    def __init__(self):
        self.calls = []

    def begin(self):
        self.step = v1.train.get_global_step()

    def after_create_session(self, session, coord):
        self.calls.append(("created", session.run(self.step)))

    def after_run(self, context, values):
        self.calls.append(("run", context.session.run(self.step)))

    def end(self, session):
        self.calls.append(("end", session.run(self.step)))


def input_fn():
    pairs = tf.data.Dataset.from_tensor_slices((ROWS, 3 * ROWS))
    return pairs.repeat().batch(1, drop_remainder=True)


def made(folder, replicas, own, logged):
    """An estimator of one weight, in runs of two steps, with a hook of its own."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable("weight", [1], initializer=v1.ones_initializer())
        found = features * weight
        loss = tf.reduce_mean((found - labels) ** 2)
        if mode == "infer":
            return IPUEstimatorSpec(mode, {"found": found}, prediction_hooks=[own])
        if mode == "eval":
            error = v1.metrics.mean_absolute_error(labels, found)
            return IPUEstimatorSpec(
                mode,
                loss=loss,
                eval_metric_ops={"error": error},
                evaluation_hooks=[own],
            )
        log = IPULoggingTensorHook(
            every_n_iter=1,
            formatter=lambda values: logged.append(values["loss"]) or "",
        )
        with tf.control_dependencies([log.log({"loss": loss})]):
            optimizer = CrossReplicaOptimizer(v1.train.GradientDescentOptimizer(RATE))
            step = optimizer.minimize(loss)
        return IPUEstimatorSpec(
            mode, loss=loss, train_op=step, training_hooks=[own, log]
        )

    config = IPUConfig()
    config.auto_select_ipus = replicas
    settings = IPURunConfig(2, config, num_replicas=replicas)
    return IPUEstimator(model_fn, config=RunConfig(settings, model_dir=str(folder)))


def trained(replicas, steps):
    """NumPy's weight after the steps, and the losses of the replicas in each step."""
    weight, losses = np.float32(1), []
    for rows in ROWS[: steps * replicas].reshape(steps, replicas):
        losses.append((weight - 3) ** 2 * rows**2)
        weight -= RATE * np.mean(2 * (weight - 3) * rows**2)
    return weight, losses


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_hooks_see_the_steps_of_each_session(tmp_path, replicas):
    """Those of the caller and of the model; the numbers are NumPy's."""
    model, logged = Notes(), []
    estimator = made(tmp_path, replicas, model, logged)

    def both(call):
        model.calls.clear()
        user = Notes()
        result = call([user])
        assert user.calls == model.calls
        return result, user.calls

    _, calls = both(lambda hooks: estimator.train(input_fn, steps=4, hooks=hooks))
    assert calls == [("created", 0), ("run", 2), ("run", 4), ("end", 4)]
    weight, losses = trained(replicas, 4)
    np.testing.assert_allclose(
        estimator.get_variable_value("weight"), [weight], rtol=1e-5
    )
    np.testing.assert_allclose(np.ravel(logged), np.ravel(losses[1::2]), rtol=1e-4)

    found, calls = both(lambda hooks: estimator.evaluate(input_fn, 2, hooks))
    assert calls == [("created", 4), ("run", 4), ("end", 4)]
    np.testing.assert_allclose(
        found["error"], (3 - weight) * ROWS[: 2 * replicas].mean(), rtol=1e-4
    )


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("count", [1, 5])
def test_the_last_prediction_ends_the_session(tmp_path, replicas, count):
    """It calls `end` of the hooks, as the end of a dataset does."""
    model, user = Notes(), Notes()
    estimator = made(tmp_path, replicas, model, [])
    found = estimator.predict(input_fn, hooks=[user], num_predictions=count)
    assert [each["found"].item() for each in found] == ROWS[:count, 0].tolist()
    assert model.calls == user.calls
    assert (user.calls[0], user.calls[-1]) == (("created", 0), ("end", 0))
