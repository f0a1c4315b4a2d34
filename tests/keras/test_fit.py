"""fit, evaluate and predict on an IPU do what stock Keras does."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    models.configure(1)


@pytest.fixture(scope="module")
def strategy(one_ipu):
    return IPUStrategy()


def program(model, mode="fit"):
    return model.__dict__["_ipufeed"].programs[mode]


@pytest.fixture(scope="module")
def dense(strategy):
    """A trained model, for tests that need any."""
    with strategy.scope():
        model = models.compiled(models.dense, "momentum", steps_per_execution=4)
    model.fit(models.dataset(), verbose=0, shuffle=False)
    return model


def train(model, epochs=3, **arguments):
    steps = models.Steps()
    data = models.dataset()
    history = model.fit(
        data,
        epochs=epochs,
        verbose=0,
        callbacks=[steps],
        validation_data=data,
        shuffle=False,
        **arguments,
    )
    score = model.evaluate(data, verbose=0)
    return steps, history, score, model.predict(data, verbose=0)


def assert_same(make, optimizer, strategy, furthest=0.0):
    """Each step's logs, results, variables; all of it on the IPU."""
    stock = models.compiled(make, optimizer, jit_compile=True)
    theirs = train(stock)
    with strategy.scope():
        model = models.compiled(make, optimizer, steps_per_execution=8)
        model.set_asynchronous_callbacks(True)
    ours = train(model)

    assert theirs[0].ends == ours[0].ends
    for one, other in [
        (theirs[0].logs, ours[0].logs),
        (theirs[1].history, ours[1].history),
        (theirs[2:], ours[2:]),
        (models.values(stock), models.values(model)),
    ]:
        tf.nest.assert_same_structure(one, other)
        assert models.furthest(models.numbers(one), models.numbers(other)) <= furthest
    devices = {each.value.device.split("/device:")[1] for each in model.variables}
    assert devices == {"IPU:0"}
    assert program(model).function.experimental_get_tracing_count() == 1


def test_all_state_advances_as_in_stock_keras(strategy):
    """Dropout, noise, averages, regularizer, schedule, clipping: exactly equal."""
    assert_same(models.stateful, "adam", strategy)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        (models.dense, "momentum"),
        (models.dense, "rmsprop"),
        (models.stateful, "adamw"),
        (models.convolutional, "adam"),
        (models.recurrent, "adam"),
        (models.transformer, "adamw"),
    ],
)
def test_all_models_train_as_in_stock_keras(strategy, make, optimizer):
    """Each kind of layer and optimizer: exactly equal, but for convolutions.

    XLA chooses the instructions of a convolution for the whole program, so that a step
    alone and a step in a loop differ by a rounding error on some CPUs.
    """
    assert_same(
        make, optimizer, strategy, 1e-5 if make is models.convolutional else 0.0
    )


def test_a_callback_is_called_once_for_each_execution(dense):
    """With the first step, and with the last step and its results."""
    steps = models.Steps()
    history = dense.fit(models.dataset(), verbose=0, callbacks=[steps], shuffle=False)

    assert (steps.begins, steps.ends) == ([0, 4], [3, 7])
    assert steps.logs[-1] == {name: row[0] for name, row in history.history.items()}


def test_one_program_serves_all_calls(dense):
    """Epochs, datasets of one type, numbers of steps; a callback sets the learning rate."""
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5 / (epoch + 1))
    before = [each.numpy() for each in dense.weights]
    first = program(dense)
    traces = first.function.experimental_get_tracing_count()
    history = dense.fit(
        models.dataset().shuffle(10),
        epochs=2,
        verbose=0,
        callbacks=[rates],
        shuffle=False,
    )
    dense.fit(
        models.dataset().repeat(), steps_per_epoch=2, epochs=2, verbose=0, shuffle=False
    )

    assert program(dense) is first
    assert first.function.experimental_get_tracing_count() == traces
    assert history.history["learning_rate"] == [0.5, 0.25]
    assert models.furthest(before, [each.numpy() for each in dense.weights]) > 0.01


def test_arrays_are_taken_as_keras_takes_them(strategy):
    """Shuffled, weighted, split, of 64 bits; with an epoch to begin with."""
    x, y = models.arrays()
    arguments = {
        **{"epochs": 3, "initial_epoch": 1, "verbose": 0, "batch_size": 8},
        **{"sample_weight": np.linspace(0, 2, 64), "validation_split": 0.25},
    }
    results = []
    for scope in (False, True):
        with strategy.scope() if scope else tf.device("/device:CPU:0"):
            model = models.compiled(models.dense, steps_per_execution=3)
        found = model.fit(x.astype("float64"), y.astype("int64"), **arguments)
        results.append(found)

    assert results[1].epoch == [1, 2]
    assert models.histories_differ(*results) < 1e-5


class Batches(keras.utils.PyDataset):
    """Its order changes when Keras says that an epoch ends, or that `fit` begins."""

    ends = 0

    def __len__(self):
        return 8

    def on_epoch_end(self):
        self.ends += 1

    def __getitem__(self, index):
        index = (index * 3 + self.ends) % 8
        return tuple(each[8 * index : 8 * index + 8] for each in models.arrays())


def endlessly():
    while True:
        yield from (Batches()[index] for index in range(8))


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (Batches, {"class_weight": {0: 0.5, 1: 1.0, 2: 2.0, 3: 1.0}}),
        (lambda: Batches(workers=2), {}),
        (endlessly, {"steps_per_epoch": 8}),
    ],
    ids=["PyDataset", "workers", "generator"],
)
def test_generators_and_pydatasets_reach_the_infeed(strategy, make, arguments):
    """With the shapes of their first batch."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            model = models.compiled(models.dense, steps_per_execution=4)
        found.append(model.fit(make(), epochs=2, verbose=0, shuffle=False, **arguments))

    assert models.histories_differ(*found) < 1e-5


class StopAfter(keras.callbacks.Callback):
    """Ends `evaluate` and `predict` after their second execution."""

    def on_test_batch_end(self, batch, logs=None):
        self.model.stop_evaluating = batch == 3

    def on_predict_batch_end(self, batch, logs=None):
        self.model.stop_predicting = batch == 3


def test_shuffles_and_stops_are_those_of_keras(strategy):
    """A dataset that shuffles has the order of stock Keras in each epoch of each call."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            model = models.compiled(models.dense, steps_per_execution=2)
        x, y = models.arrays()
        data = tf.data.Dataset.from_tensor_slices((x, y.astype("int64")))
        data = data.shuffle(64, seed=1)
        data = data.batch(8, drop_remainder=True)
        history = model.fit(
            data, epochs=3, verbose=0, shuffle=False, validation_data=data
        )
        stopped = model.evaluate(data, verbose=0, callbacks=[StopAfter()])
        again = model.fit(data, verbose=0, shuffle=False)
        rows = len(model.predict(data, verbose=0, callbacks=[StopAfter()]))
        found.append(
            [*history.history.values(), stopped, again.history["loss"], [rows]]
        )

    assert found[0][-1] == [32]
    assert models.furthest(*found) < 1e-5


def test_calls_of_one_batch_need_no_scope(strategy):
    """train_on_batch and its like are stock Keras, on the IPU, wherever they are called."""
    x, y = Batches()[0]
    x = x.astype("float64")  # NumPy's own floats, which no IPU has
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            model = models.compiled(models.dense, jit_compile=True)
        found.append(
            [
                *model.train_on_batch(x, y),
                *model.train_on_batch(x, y, sample_weight=np.linspace(0, 1, 8)),
                *model.test_on_batch(x, y),
                model.predict_on_batch(x),
            ]
        )

    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))


def test_class_weights_scale_the_loss(dense):
    """A map on the dataset, as in Keras."""
    before, one = dense.get_weights(), models.dataset().take(1)
    plain = dense.fit(one, verbose=0, shuffle=False).history["loss"]
    dense.set_weights(before)
    weights = dict.fromkeys(range(models.CLASSES), 0.5)
    half = dense.fit(one, verbose=0, shuffle=False, class_weight=weights).history[
        "loss"
    ]

    assert half[0] == pytest.approx(plain[0] / 2, rel=1e-5)


def subclass(base=keras.Model):
    class Mine(base):
        def __init__(self):
            super().__init__()
            self.one = keras.layers.Dense(8, activation="relu")
            self.two = keras.layers.Dense(models.CLASSES)

        def call(self, inputs, training=False):
            return {"out": self.two(self.one(inputs["in"]))}

        def train_step(self, data):
            logs = super().train_step(data)
            return {**logs, "twice": 2 * logs["loss"]}

    return Mine()


def test_a_subclass_is_built_from_the_data(strategy):
    """With its own train_step, named inputs and outputs, and no shapes of its own."""
    x, y = models.arrays()
    data = tf.data.Dataset.from_tensor_slices(({"in": x}, {"out": y})).batch(8, True)
    found = []
    for scope in (False, True):
        keras.utils.set_random_seed(3)
        with strategy.scope() if scope else tf.device("/device:CPU:0"):
            model = subclass()
            model.compile(
                "adam", {"out": models.cross_entropy()}, steps_per_execution=4
            )
        found.append(model.fit(data, epochs=2, verbose=0, shuffle=False))

    assert models.histories_differ(*found) < 1e-5
    assert {"loss", "twice"} <= set(found[1].history)
    assert model.predict(data, verbose=0)["out"].shape == (64, models.CLASSES)


def test_callbacks_of_keras_work_between_executions(dense, tmp_path, strategy):
    """EarlyStopping, ModelCheckpoint; what is saved loads inside and outside of a scope."""
    path = tmp_path / "best.weights.h5"
    history = dense.fit(
        models.dataset(),
        epochs=9,
        verbose=0,
        shuffle=False,
        validation_data=models.dataset(),
        callbacks=[
            keras.callbacks.EarlyStopping("loss", patience=0, min_delta=1e9),
            keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True),
        ],
    )
    assert history.epoch == [0, 1]
    assert "val_accuracy" in history.history
    dense.load_weights(path)

    dense.save(tmp_path / "model.keras")
    want = dense.evaluate(models.dataset(), verbose=0)
    with strategy.scope():
        here = keras.models.load_model(tmp_path / "model.keras")
    there = keras.models.load_model(tmp_path / "model.keras")
    assert here.variables[0].value.device.endswith("IPU:0")
    assert there.variables[0].value.device.endswith("CPU:0")
    assert np.allclose(here.evaluate(models.dataset(), verbose=0), want)
    assert np.allclose(there.evaluate(models.dataset(), verbose=0), want)


def test_the_progress_bar_counts_steps(dense, capsys):
    """Of the epoch; each execution moves it."""
    dense.fit(models.dataset(), shuffle=False, verbose=1)

    assert "8/8" in capsys.readouterr().out


def test_a_model_made_elsewhere_stays_stock(strategy):
    """In whatever scope it is trained; and has no option of an IPU."""
    model = models.compiled(models.dense)

    with pytest.raises(
        ValueError, match="Sequential can only be used on an IPU device"
    ):
        model.set_asynchronous_callbacks(True)
    assert "_ipufeed" not in model.__dict__


@pytest.mark.long
@pytest.mark.parametrize("iterators", [True, False])
def test_stock_keras_runs_under_a_strategy_without_the_extension(iterators):
    """Step by step, with variables on the IPU and an iterator on the host."""
    stock = models.compiled(models.dense, steps_per_execution=2)
    want = stock.fit(models.dataset(), verbose=0, shuffle=False)
    plain = IPUStrategy(
        enable_keras_extensions=False, enable_dataset_iterators=iterators
    )
    with plain.scope():
        model = models.compiled(models.dense, steps_per_execution=2)
        found = model.fit(models.dataset(), verbose=0, shuffle=False)
        predicted = model.predict(models.arrays()[0], verbose=0)

    assert "_ipufeed" not in model.__dict__
    assert model.variables[0].value.device.endswith("IPU:0")
    assert models.histories_differ(want, found) < 1e-5
    assert np.allclose(
        stock.predict(models.arrays()[0], verbose=0), predicted, atol=1e-5
    )


class Interrupted:
    """A value whose conversion is interrupted by Ctrl-C."""

    def __float__(self):
        raise KeyboardInterrupt


def test_ctrl_c_while_logs_are_converted_ends_the_call(strategy):
    seen = []
    last = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: seen.append(logs)
    )
    called = keras.callbacks.CallbackList([last])

    called.on_train_batch_end(
        0, {"b": tf.constant(2.0), "a": {"c": np.int64(1)}, "d": "x"}
    )
    assert seen == [{"b": 2.0, "c": 1.0, "d": "x"}]
    with pytest.raises(KeyboardInterrupt):
        called.on_train_batch_end(1, {"loss": Interrupted()})
