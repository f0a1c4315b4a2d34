"""Models of tf_keras run on an IPU as those of Keras 3 do."""

import contextlib
import json
import os
import subprocess
import sys

import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from helpers import DEADLOCK_S

import ipufeed.keras as ipu_keras
from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

CLASSES = keras_models.CLASSES
arrays, dataset = keras_models.arrays, keras_models.dataset


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    keras_models.configure(1)


@pytest.fixture(scope="module")
def strategy(one_ipu):
    return IPUStrategy()


def dense():
    layers = [keras.layers.Dense(8, "relu", input_shape=(6,)), keras.layers.Dense(4)]
    return keras.Sequential(layers)


def averaging():
    layers = keras.layers
    inputs = keras.Input((6,))
    x = layers.Dense(8, kernel_regularizer="l2")(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def recurrent():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Reshape([3, 2]),
            layers.Bidirectional(layers.GRU(3, return_sequences=True)),
            layers.LSTM(3),
            layers.Dense(CLASSES),
        ]
    )


class Subclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.one, self.two = keras.layers.Dense(8), keras.layers.Dense(CLASSES)
        self.mine = keras.metrics.Mean("mine")

    def call(self, x, training=None):
        x = self.one(x)
        self.add_loss(0.01 * tf.reduce_mean(x**2))
        return self.two(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            found = self(x, training=True)
            loss = self.compiled_loss(y, found, regularization_losses=self.losses)
        weights = self.trainable_variables
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )
        self.compiled_metrics.update_state(y, found)
        self.mine.update_state(loss)
        return {each.name: each.result() for each in self.metrics}


def compiled(make, optimizer, **keywords):
    keras.utils.set_random_seed(7)
    model = make()
    model.compile(
        optimizer(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **{"metrics": ["accuracy"], **keywords},
    )
    return model


class Steps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ends, self.logs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(batch)
        self.logs += [float(logs[name]) for name in sorted(logs)]


def trained(model, **arguments):
    """Numbers of each step and epoch, results and variables."""
    steps = Steps()
    history = model.fit(
        dataset(),
        epochs=2,
        verbose=0,
        callbacks=[steps],
        validation_data=dataset(),
        **arguments,
    )
    score = model.evaluate(dataset(), verbose=0)
    return [
        steps.ends,
        steps.logs,
        *(history.history[name] for name in sorted(history.history)),
        score,
        model.predict(dataset(), verbose=0),
        *(each.numpy() for each in model.weights),
        *(each.numpy() for each in list(model.optimizer.variables)),
    ]


def old_adam():
    return keras.optimizers.legacy.Adam(0.01)


def momentum():
    return keras.optimizers.SGD(0.05, momentum=0.9)


def scheduled():
    rates = keras.optimizers.schedules.ExponentialDecay(0.01, 5, 0.9)
    return keras.optimizers.AdamW(rates, weight_decay=0.004, use_ema=True)


@pytest.mark.parametrize(
    ("make", "optimizer", "most"),
    [
        (dense, momentum, 0.0),
        (averaging, scheduled, 0.0),
        (Subclass, momentum, 1e-5),
        pytest.param(
            *(recurrent, lambda: keras.optimizers.RMSprop(0.01), 1e-5),
            marks=pytest.mark.soak,  # and in the program below
        ),
    ],
    ids=["dense", "averaging", "subclass", "recurrent"],
)
def test_models_train_as_in_stock_tf_keras(strategy, make, optimizer, most):
    """Each step's logs, results, variables; one program for all epochs."""
    # Stock recurrent layers do not end there with jit_compile.
    stock = trained(compiled(make, optimizer, jit_compile=make is not recurrent))
    with strategy.scope():
        model = compiled(make, optimizer, steps_per_execution=4)
    model.set_asynchronous_callbacks(True)
    ours = trained(model)

    far = max(np.abs(np.subtract(a, b)).max() for a, b in zip(stock, ours, strict=True))
    assert far <= most
    assert {each.device.split("/device:")[1] for each in model.weights} == {"IPU:0"}
    program = model.__dict__["_ipufeed"].programs["fit"].function
    assert program.experimental_get_tracing_count() == 1


def test_optimizers_of_the_old_kind_and_arrays(strategy):
    """Made outside of the scope; split, weighted; a learning rate set between epochs."""
    x, y = arrays()
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
        with scope:
            model = compiled(dense, old_adam)
        history = model.fit(
            *(x, y.astype("int64"), 8, 3, 0),
            callbacks=[rates],
            validation_split=0.25,
            shuffle=False,
            class_weight={0: 0.5, 1: 1.0, 2: 2.0, 3: 1.0},
            sample_weight=np.linspace(0, 2, 64),
        )
        found.append([history.history[name] for name in sorted(history.history)])
    assert np.allclose(*found, rtol=1e-5)


def test_an_optimizer_made_elsewhere_is_taken_over(strategy):
    """With its count and its learning rate, which can be set afterwards."""
    with strategy.scope():
        model = dense()
    optimizer = momentum()
    model.compile(optimizer, "mse", steps_per_execution=4)
    model.fit(arrays()[0], np.zeros([64, 4], "float32"), 8, verbose=0)

    assert int(optimizer.iterations) == 8
    assert {each.device.split("/device:")[1] for each in optimizer.variables} == {
        "IPU:0"
    }


def test_accumulation_and_replicas_are_a_larger_batch():
    """4 mini-batches on 2 replicas, and the same in one batch."""
    found = []
    for ipus in (None, 2):
        keras_models.configure(2)
        scope = contextlib.nullcontext() if ipus is None else IPUStrategy().scope()
        batch, loss = (64, 2.0) if ipus is None else (8, 1.0)
        with scope:
            model = compiled(
                dense, momentum, loss_weights=[loss], steps_per_execution=1
            )
        if ipus:
            model.steps_per_execution = 4
            model.set_gradient_accumulation_options(4, "mean")
            model.set_replication_options("mean")
        history = model.fit(dataset(batch), epochs=3, verbose=0, shuffle=False)
        found.append([*model.get_weights(), history.history["accuracy"]])
    keras_models.configure(1)

    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(*found, strict=True))


def test_float16_and_frozen_layers(strategy):
    """A policy is allowed in the scope; what is frozen after `compile` is trained."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with strategy.scope():
            model = compiled(dense, momentum, steps_per_execution=4)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    before = model.get_weights()
    model.layers[0].trainable = False
    history = model.fit(dataset(), epochs=3, verbose=0).history

    assert history["loss"][-1] < history["loss"][0]
    assert model.layers[0].compute_dtype == "float16"
    assert np.abs(before[0] - model.get_weights()[0]).max() > 1e-3


class Batches(keras.utils.Sequence):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return tuple(each[8 * index : 8 * index + 8] for each in arrays())


def endlessly():
    while True:
        yield from (Batches()[index] for index in range(8))


def test_generators_and_sequences_reach_the_infeed(strategy):
    """With the shapes of their first batch."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            model = compiled(dense, momentum, steps_per_execution=4)
        for data, steps in ((Batches(), None), (endlessly(), 8)):
            history = model.fit(
                data, epochs=2, verbose=0, shuffle=False, steps_per_epoch=steps
            )
            found.append(history.history["loss"])
    assert np.allclose(found[:2], found[2:], rtol=1e-5)


def test_what_a_program_cannot_take_is_refused(strategy):
    """Partial batches; a pipeline without its count; arguments that do not exist."""
    with strategy.scope():
        model = compiled(dense, momentum, steps_per_execution=4)
        with ipu_keras.PipelineStage(0):
            staged = compiled(dense, momentum)
            first = keras.layers.Dense(8)
        halved = compiled(
            lambda: keras.Sequential([first, keras.layers.Dense(4)]), momentum
        )
    x, y = arrays()
    with pytest.raises(ValueError, match="has a partial batch"):
        model.fit(x[:62], y[:62], batch_size=8, verbose=0)
    with pytest.raises(RuntimeError, match=r"has 1 stage\. A pipeline"):
        staged.fit(dataset(), verbose=0)
    with pytest.raises(ValueError, match=r"However, dense\w* has not been"):
        halved.fit(dataset(), verbose=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        model.fit(x, y, epoch=2)


PROGRAM = """
import json, sys
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.keras import ipu as in_keras

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
layers = ipu.keras.layers
x = np.random.default_rng(0).normal(size=[32, 4, 6]).astype("float32")
starved = ipu.keras.InputBound()
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    mine, stock = [
        tf.keras.Sequential([
            tf.keras.Input((4, 6)), kind.LSTM(5, return_sequences=True), kind.GRU(4),
            normal(), own, tf.keras.layers.Dense(1)])
        for kind, normal, own in (
            (layers, lambda: layers.GroupNormalization(2, strided_channel_grouping=False),
             layers.SerialDense(3, 1, "kernel_rows")),
            (tf.keras.layers, lambda: tf.keras.layers.GroupNormalization(2),
             tf.keras.layers.Dense(3)))]
    stock.set_weights(mine.get_weights())
    found = []
    for model in mine, stock:
        model.compile(tf.keras.optimizers.SGD(0.1), "mse", steps_per_execution=4)
        history = model.fit(x, x[:, 0, 0], 8, epochs=2, verbose=0, shuffle=False,
                            callbacks=[starved])
        found.append(history.history["loss"])
print(json.dumps([found, tf.keras.Model.__module__, in_keras is ipu.keras,
                  "keras" in sys.modules, len(starved.starved)]))
"""


@pytest.mark.process
def test_a_program_of_legacy_keras(tmp_path):
    """TF_USE_LEGACY_KERAS=1: layers and callbacks are tf_keras's; Keras 3 stays away."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "ipufeed.run", "program.py"],
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )
    assert done.returncode == 0, done.stderr
    (mine, stock), name, same, keras3, epochs = json.loads(done.stdout.splitlines()[-1])

    assert np.allclose(mine, stock, rtol=1e-4)
    assert name.startswith("tf_keras")
    assert (same, epochs) == (True, 2)
    assert not keras3
