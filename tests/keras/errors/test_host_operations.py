"""Operations that a compiled program cannot contain are refused by the layer's name."""

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.framework import kernels

import ipufeed.keras as ipu_keras
from ipufeed.device.program.outside_compilation import outside_compilation_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import UnsupportedElementError
from ipufeed.keras.checks import host_operations

pytestmark = pytest.mark.long

CODES = (np.arange(192) * 7 % 20).reshape(64, 3).astype("int32")
NUMBERS, LABELS = keras_models.arrays()
KINDS = pytest.mark.parametrize("kind", [keras, tf_keras], ids=["keras3", "tf_keras"])


@pytest.fixture(scope="module")
def strategy():
    keras_models.configure(1)
    return IPUStrategy()


def in_python(x):
    doubled = tf.py_function(lambda each: each * 2, [x], tf.float32)
    return tf.ensure_shape(doubled, x.shape)


LAYERS = {
    "lookup": lambda layers: layers.IntegerLookup(vocabulary=[1, 2], name="ids"),
    "hashing": lambda layers: layers.Hashing(7, name="ids"),
    "python": lambda layers: layers.Lambda(in_python, name="ids", output_shape=(3,)),
}
WORDS = {
    "lookup": r"`ids` \(IntegerLookup\) of .*it uses a table on the host",
    "hashing": r"`ids` \(Hashing\) of .*XLA has no kernel",
    "python": r"`ids` \(Lambda\) of .*it calls Python",
}


def model_of(kind, case, stages=None):
    layers = kind.layers
    dtype = "float32" if case == "python" else "int32"
    inputs = kind.Input((3,), dtype=dtype)
    embed = layers.Lambda(lambda x: tf.cast(x, "float32"), output_shape=(3,))
    if stages is None:
        outputs = layers.Dense(1)(embed(LAYERS[case](layers)(inputs)))
    else:
        with ipu_keras.PipelineStage(0):
            found = LAYERS[case](layers)(inputs)
        with ipu_keras.PipelineStage(1):
            outputs = layers.Dense(1)(embed(found))
    model = kind.Model(inputs, outputs)
    model.compile("sgd", "mse", steps_per_execution=8)
    return model


@KINDS
@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_of_the_host_is_refused(strategy, kind, case):
    """By fit and by predict, with what to do."""
    with strategy.scope():
        model = model_of(kind, case)
    words = rf"The layer {WORDS[case]}.*dataset\.map\(lambda"
    with pytest.raises(ValueError, match=words):
        model.fit(CODES, LABELS, 8, verbose=0)
    with pytest.raises(ValueError, match=words):
        model.predict(CODES, 8, verbose=0)


@KINDS
@pytest.mark.parametrize("case", LAYERS)
def test_so_it_is_in_a_stage_of_a_pipeline(kind, case):
    """Before the pipeline's own check, which knows no layers."""
    keras_models.configure(2)
    with IPUStrategy().scope():
        model = model_of(kind, case, stages=2)
        model.set_pipelining_options(4)
    try:
        with pytest.raises(ValueError, match=f"The layer {WORDS[case]}"):
            model.fit(CODES, LABELS, 8, verbose=0)
    finally:
        keras_models.configure(1)


@KINDS
def test_texts_are_refused(strategy, kind):
    """As data, with the layers that take them."""
    layers = kind.layers
    with strategy.scope():
        inputs = kind.Input((1,), dtype="string")
        words = layers.TextVectorization(
            vocabulary=["a"], output_sequence_length=2, name="words"
        )
        embedded = layers.Flatten()(layers.Embedding(5, 2)(words(inputs)))
        model = kind.Model(inputs, layers.Dense(1)(embedded))
        model.compile("sgd", "mse")
    texts = tf.constant([["a b"]] * 64)
    data = tf.data.Dataset.from_tensor_slices((texts, NUMBERS[:, :1])).batch(8, True)
    told = r"Component 0 .* layers `words` \(TextVectorization\): .*dataset.map\(lambda"
    with pytest.raises(UnsupportedElementError, match=told):
        model.fit(data, verbose=0, shuffle=False)


def test_sparse_encodings_are_refused():
    """With the argument that makes them dense."""
    with IPUStrategy().scope():
        layers = tf_keras.layers
        inputs = tf_keras.Input((3,), dtype="int32")
        encoding = layers.CategoryEncoding(20, sparse=True, name="codes")
        model = tf_keras.Model(inputs, layers.Dense(1)(encoding(inputs)))
        model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"`codes` .*DenseCount.*`sparse=False`"):
        model.fit(CODES, LABELS, 8, verbose=0)


@KINDS
def test_a_loss_that_calls_python_is_refused(strategy, kind):
    """It belongs to no layer."""

    def loss(y_true, y_pred):
        return in_python(tf.reduce_mean((y_pred - y_true) ** 2, axis=-1))

    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", loss)
    with pytest.raises(ValueError, match=r"A function of the model .*EagerPyFunc"):
        model.fit(NUMBERS, NUMBERS[:, :1], 8, verbose=0)


def test_the_host_executes_them_in_a_scope_for_it(strategy):
    """outside_compilation_scope makes TensorFlow's executor run the program."""

    def outside(x):
        with outside_compilation_scope():
            return in_python(x)

    found = []
    for function in (outside, lambda x: x * 2):
        with strategy.scope():
            keras.utils.set_random_seed(7)
            scaled = keras.layers.Lambda(function, output_shape=(6,))
            layers = [keras.Input((6,)), scaled, keras.layers.Dense(1)]
            model = keras.Sequential(layers)
        found.append(model.predict(NUMBERS, 8, verbose=0))

    assert np.allclose(*found, rtol=1e-5)


def test_kernels_are_requested_once_for_each_type(strategy, monkeypatch):
    """TensorFlow looks through all kernels each time, however many operations there are."""
    monkeypatch.setattr(host_operations, "_with_kernel", set())
    asked = []
    stock = kernels.get_registered_kernels_for_op
    monkeypatch.setattr(
        kernels,
        "get_registered_kernels_for_op",
        lambda kind: asked.append(kind) or stock(kind),
    )
    with strategy.scope():
        layers = [keras.layers.Dense(6, "relu") for _ in range(3)]
        model = keras.Sequential([keras.Input((6,)), *layers])
    model.predict(NUMBERS, 8, verbose=0)

    assert asked.count("Relu") == 1
