"""The options of an IPU's models: callbacks, queues, accumulation, replicas."""

import threading
import time

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import InputBound, ReplicatedMetricReductionMethod


@pytest.fixture(scope="module")
def strategy():
    models.configure(1)
    return IPUStrategy()


@pytest.fixture(scope="module")
def model(strategy):
    with strategy.scope():
        return models.compiled(models.dense, steps_per_execution=4, metrics=[])


def fit(model, data=None, **arguments):
    steps = models.Steps()
    callbacks = [steps, *arguments.pop("callbacks", [])]
    data = models.dataset() if data is None else data
    model.fit(data, verbose=0, shuffle=False, callbacks=callbacks, **arguments)
    return steps


def test_asynchronous_callbacks_come_while_the_program_runs(strategy):
    """Each step's on another thread: the dataset waits for the one of the first step."""
    seen, threads = threading.Event(), set()

    def wait(x, y):
        def second_half(row):
            assert seen.wait(60)
            return row

        row = tf.py_function(second_half, [x], tf.float32)
        return tf.ensure_shape(row, x.shape), y

    def first(batch, logs):
        threads.add(threading.current_thread().name)
        seen.set()

    data = models.dataset()
    data = data.take(4).concatenate(data.skip(4).map(wait))
    with strategy.scope():
        model = models.compiled(models.dense, steps_per_execution=8, metrics=[])
    model.set_asynchronous_callbacks(True)
    # The first element of the second half is read ahead before the first result comes.
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=first)
    steps = fit(model, data, callbacks=[callback])

    assert steps.begins == steps.ends == list(range(8))
    assert threads == {"ipufeed_keras_callbacks"}
    assert "ipufeed_keras_callbacks" not in {
        each.name for each in threading.enumerate()
    }


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_error_of_a_callback_comes_out_of_fit(model, asynchronous):
    """And leaves nothing for the next fit, which works."""
    model.set_asynchronous_callbacks(asynchronous)
    bad = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit(model, callbacks=[bad])
    steps = fit(model)

    assert steps.ends == (list(range(8)) if asynchronous else [3, 7])
    model.set_asynchronous_callbacks(False)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_error_of_the_dataset_comes_out_of_fit(model, asynchronous):
    """Too few elements, of a dataset whose size is not known; the next fit works."""
    model.set_asynchronous_callbacks(asynchronous)
    short = models.dataset().take(5).filter(lambda x, y: True)
    with pytest.raises(tf.errors.OutOfRangeError, match="out of range"):
        fit(model, short, steps_per_epoch=8)
    steps = fit(model)

    assert len(steps.ends) == (8 if asynchronous else 2)
    model.set_asynchronous_callbacks(False)


def test_callbacks_of_predict_get_the_outputs(model):
    """Of an execution, or of each step; together they are what predict gives."""
    parts = []
    keep = keras.callbacks.LambdaCallback(
        on_predict_batch_end=lambda batch, logs: parts.append((batch, logs["outputs"]))
    )
    whole = model.predict(models.dataset(), verbose=0, callbacks=[keep])
    model.set_asynchronous_callbacks(True)
    again = model.predict(models.dataset(), verbose=0, callbacks=[keep])
    model.set_asynchronous_callbacks(False)

    assert [batch for batch, _ in parts] == [3, 7, *range(8)]
    for some in (parts[:2], parts[2:]):
        assert np.array_equal(np.concatenate([rows for _, rows in some]), whole)
    assert np.array_equal(whole, again)


def test_options_of_queues_reach_the_queues(model):
    """And only those that Keras does not set itself."""
    model.set_infeed_queue_options(prefetch_depth=2)
    model.set_outfeed_queue_options(buffer_depth=5)
    fit(model)
    outfeed = model.__dict__["_ipufeed"].programs["fit"].outfeed
    assert outfeed.stats().capacity == outfeed._buffer_depth == 5
    with pytest.raises(ValueError, match="cannot be less than 1"):
        model.set_outfeed_queue_options(buffer_depth=0)
    with pytest.raises(ValueError, match="must be less than 256"):
        model.set_infeed_queue_options(prefetch_depth=1000)
    assert model.__dict__["_ipufeed"].outfeed == {"buffer_depth": 5}
    model.set_outfeed_queue_options()
    model.set_infeed_queue_options()

    automatic = "This argument is automatically set by Keras"
    never = "This argument is not compatible with Keras"
    for method, key, words in (
        (model.set_infeed_queue_options, "dataset", automatic),
        (model.set_infeed_queue_options, "element_spec", automatic),
        (model.set_outfeed_queue_options, "outfeed_mode", never),
        (model.set_outfeed_queue_options, "device_ordinal", never),
    ):
        with pytest.raises(ValueError, match=f"Found `{key}` key in `kwargs`. {words}"):
            method(**{key: 1})


@pytest.fixture(scope="module")
def large_batches():
    """The weights of stock Keras after batches of 16, with the loss times 1, 2 and 4."""
    trained, loss = {}, models.cross_entropy()
    for factor in (1, 2, 4):
        stock = models.compiled(models.dense, "momentum", metrics=[])
        stock.compile(
            models.optimizer("momentum"),
            lambda t, p, factor=factor: factor * loss(t, p),
            metrics=[],
        )
        stock.fit(models.dataset(16), epochs=2, verbose=0, shuffle=False)
        trained[factor] = stock.get_weights()
    return trained


@pytest.mark.parametrize(
    ("method", "factor"), [("sum", 4), ("mean", 1), ("RUNNING_MEAN", 1)]
)
def test_accumulation_is_a_larger_batch(strategy, large_batches, method, factor):
    """Four batches of 4 are one of 16; the optimizer counts updates."""
    with strategy.scope():
        model = models.compiled(
            models.dense, "momentum", metrics=[], steps_per_execution=8
        )
    model.set_gradient_accumulation_options(
        4, gradient_accumulation_reduction_method=method, dtype=tf.float32
    )
    steps = fit(model, models.dataset(4), epochs=2)

    assert int(model.optimizer.iterations.numpy()) == 8
    assert len(steps.ends) == 4
    assert models.furthest(large_batches[factor], model.get_weights()) < 1e-5


def test_a_model_without_weights_accumulates_nothing(strategy):
    """It has its loss, as without accumulation."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Rescaling(2.0)])
        model.compile("sgd", "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2)
    ones = np.ones([32, 6], "float32")

    assert model.fit(ones, ones, batch_size=8, verbose=0).history == {"loss": [1.0]}


def test_accumulation_must_divide_the_execution(model):
    """Refused when fit is called; evaluate does not accumulate."""
    model.set_gradient_accumulation_options(3)
    with pytest.raises(RuntimeError, match="not divisible by"):
        fit(model)
    assert np.isfinite(model.evaluate(models.dataset(), verbose=0))
    model.set_gradient_accumulation_options(1)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"gradient_accumulation_steps_per_replica": 0},
            ValueError,
            "but got 0 instead",
        ),
        ({"gradient_accumulation_reduction_method": "max"}, ValueError, "Cannot parse"),
        ({"opt": 1}, ValueError, "Found `opt` key in `gradient_accumulation_optim"),
        ({"num_mini_batches": 1}, ValueError, "Set the `gradient_accumulation_steps"),
        (
            {"experimental_normalize_gradients": True},
            TypeError,
            "has now been removed, use `gradient_accumulation_reduction_method`",
        ),
        ({"nonsense": 1}, TypeError, "unexpected keyword argument 'nonsense'"),
    ],
)
def test_options_of_accumulation_that_are_refused(model, arguments, error, words):
    """Each error says what to use."""
    with pytest.raises(error, match=words):
        model.set_gradient_accumulation_options(**arguments)


def test_input_bound_reports_a_pipeline_that_is_waited_for(model, caplog):
    """Its share is in the History; a dataset in memory is waited for less."""

    def slow(x, y):
        row = tf.py_function(lambda row: time.sleep(0.05) or row, [x], tf.float32)
        return tf.ensure_shape(row, x.shape), y

    bound = InputBound()
    shares = []
    for data in (models.dataset().map(slow), models.dataset()):
        history = model.fit(
            data, epochs=2, verbose=0, shuffle=False, callbacks=[bound]
        ).history
        assert history["starved"] == bound.starved
        shares.append(bound.starved[-1])

    assert 0 <= shares[1] <= 1
    assert shares[0] > 0.5
    assert "its pipeline is the bottleneck" in caplog.text
    stock = models.compiled(models.dense)
    history = stock.fit(models.dataset(), verbose=0, shuffle=False, callbacks=[bound])
    assert "starved" not in history.history
    assert "InputBound has nothing to report" in caplog.text


# ---- Replicas


@pytest.fixture
def replicated():
    """A strategy on two IPUs."""
    models.configure(2)
    yield IPUStrategy()
    models.configure(1)


def test_replicas_are_a_larger_batch(replicated, large_batches):
    """Gradients are summed; metrics are each replica's own, over several executions."""
    with replicated.scope():
        model = models.compiled(models.dense, "momentum", steps_per_execution=2)
    model.set_asynchronous_callbacks(True)
    steps = fit(model, models.dataset(8), epochs=2)

    assert models.furthest(large_batches[2], model.get_weights()) < 1e-5
    assert steps.ends == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    # Each replica's mean of its own batches, from the first step of the epoch on.
    stock = models.compiled(models.dense, "momentum")
    assert stock.evaluate(models.dataset(8), verbose=0) == pytest.approx(
        evaluated_by_replica(stock).mean(0), rel=1e-4
    )
    model.set_asynchronous_callbacks(False)
    model.set_weights(stock.get_weights())
    found = {
        method: model_evaluated(model, method)
        for method in ("none", "list", ReplicatedMetricReductionMethod.SUM, "MEAN")
    }
    each = evaluated_by_replica(stock)
    assert found["none"] == pytest.approx(each[-1], rel=1e-4)
    assert np.allclose(np.transpose(found["list"]), each, rtol=1e-4)
    assert found["MEAN"] == pytest.approx(each.mean(0), rel=1e-4)
    assert found[ReplicatedMetricReductionMethod.SUM] == pytest.approx(
        each.sum(0), rel=1e-4
    )


def model_evaluated(model, method):
    model.set_replication_options(method)
    return model.evaluate(models.dataset(8), verbose=0)


def evaluated_by_replica(stock):
    """[replica, metric]: stock Keras's metrics of the batches of each."""
    data = models.dataset(8)
    return np.array(
        [stock.evaluate(data.shard(2, index), verbose=0) for index in range(2)]
    )


def test_predictions_of_replicas_are_in_the_order_of_the_data(replicated):
    """Joined from each step and replica, or reduced."""
    with replicated.scope():
        model = models.compiled(models.dense, steps_per_execution=2, metrics=[])
    x = models.arrays()[0]
    stock = models.dense()
    stock.set_weights(model.get_weights())
    want = stock.predict(x, verbose=0)

    found = model.predict(x, batch_size=8, verbose=0)
    assert np.allclose(found, want, atol=1e-6)
    model.set_replication_options("mean")
    reduced = model.predict(x, batch_size=8, verbose=0)
    pairs = want.reshape([4, 2, 8, models.CLASSES]).mean(1).reshape([32, -1])
    assert np.allclose(reduced, pairs, atol=1e-6)


def test_each_replica_has_masks_of_its_own(replicated):
    """In each step; a layer's seed and its copies on the replicas draw other numbers."""

    class Dropping(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5, seed=3)

        def call(self, x):
            return self.dropout(x, training=True)

    with replicated.scope():
        model = Dropping()
        model.compile("sgd", "mse", steps_per_execution=2)
    masks = model.predict(np.ones([8, 32], "float32"), batch_size=2, verbose=0)
    masks = masks.reshape([4, 64]) > 0

    assert all(16 < mask.sum() < 48 for mask in masks)
    assert len({mask.tobytes() for mask in masks}) == 4


def test_a_reduction_that_is_none(model):
    """The error names those that there are."""
    with pytest.raises(
        ValueError, match=r"Cannot parse best as one of .*NONE, LIST, SUM, MEAN"
    ):
        model.set_replication_options("best")


@pytest.mark.parametrize("asynchronous", [True, False])
def test_synthetic_data_give_logs_of_zeros(model, flags, asynchronous):
    """And predictions, without a warning of a queue that the user does not see."""
    flags("--use_synthetic_data")
    model.set_asynchronous_callbacks(asynchronous)
    steps = fit(model)
    predicted = model.predict(models.dataset(), verbose=0)
    model.set_asynchronous_callbacks(False)

    assert steps.logs == [{"loss": 0.0}] * 2
    assert predicted.shape == (64, models.CLASSES)
    assert not predicted.any()


@pytest.mark.parametrize("given", ["dataset", "array", "tensor"])
def test_an_integer_that_does_not_fit_is_an_error(strategy, given):
    """An infeed carries int32: 2**40 would become 0."""
    layers = [keras.Input((1,), dtype="int64"), keras.layers.Rescaling(1.0)]
    with strategy.scope():
        model = keras.Sequential(layers)
    x = np.array([[1], [2**40]])
    call = model.predict_on_batch
    if given == "dataset":
        call, x = model.predict, tf.data.Dataset.from_tensors(x)
    elif given == "tensor":
        x = tf.constant(x)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="fit int32"):
        call(x)


def test_models_made_outside_of_layers_on_the_ipu(strategy, kind, caplog):
    """Keras 3 would compile them for the host, where XLA cannot read the weights."""
    inputs = kind.Input((4,))
    with strategy.scope():
        hidden = kind.layers.Dense(3)(inputs)
        model = kind.Model(inputs, kind.layers.Dense(2)(hidden))
        model.compile(steps_per_execution=2)
    x = np.ones([8, 4], np.float32)
    features = kind.Model(inputs, hidden)
    head = kind.Sequential([model, kind.layers.Dense(2)])
    kernel, bias = model.layers[1].get_weights()

    found = features.predict(x, batch_size=4, verbose=0)
    np.testing.assert_allclose(found, x @ kernel + bias, rtol=1e-5)
    head.compile("sgd", "mse")
    head.fit(x, x[:, :2], verbose=0)
    assert not np.array_equal(model.layers[1].get_weights()[0], kernel)
    if kind is keras:
        name = model.layers[1].name
        assert f"its layer `{name}` has weights on device:IPU:0" in caplog.text
