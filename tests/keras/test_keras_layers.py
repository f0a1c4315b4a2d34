"""The layers of ipu.keras.layers compute what Keras's do, or what their formula says."""

import keras
import keras_models as models
import numpy as np
import pytest

from ipufeed import keras as ipu_keras
from ipufeed.keras import layers as ipu_layers

x = np.random.default_rng(1).normal(size=[3, 4, 6]).astype("float32")


def same_weights(one, other, inputs):
    one(inputs)
    other(inputs)
    other.set_weights(one.get_weights())
    return np.asarray(one(inputs)), np.asarray(other(inputs))


@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (
            lambda: ipu_layers.LSTM(5, partials_dtype="float32"),
            lambda: keras.layers.LSTM(5),
        ),
        (
            lambda: ipu_layers.PopnnGRU(5, return_sequences=True, dropout_seed=(1, 2)),
            lambda: keras.layers.GRU(5, return_sequences=True),
        ),
        (
            lambda: ipu_layers.SerialDense(4, 2, "kernel_rows", activation="relu"),
            lambda: keras.layers.Dense(4, activation="relu"),
        ),
        (
            lambda: ipu_layers.LayerNorm(),
            lambda: keras.layers.LayerNormalization(epsilon=1e-3),
        ),
        (
            lambda: ipu_layers.GroupNormalization(3, strided_channel_grouping=False),
            lambda: keras.layers.GroupNormalization(3),
        ),
        (
            lambda: ipu_layers.InstanceNorm(),
            lambda: keras.layers.GroupNormalization(6),
        ),
    ],
    ids=["LSTM", "GRU", "SerialDense", "LayerNorm", "GroupNorm", "InstanceNorm"],
)
def test_a_layer_equals_keras_own(ours, stock):
    """With the same weights, and after its config has been read."""
    layer = ours()
    found, want = same_weights(layer, stock(), x)
    again = type(layer).from_config(layer.get_config())
    _, restored = same_weights(layer, again, x)

    assert np.allclose(found, want, atol=1e-5)
    assert np.array_equal(found, restored)


@pytest.mark.parametrize("make", [ipu_layers.LSTM, ipu_layers.GRU])
def test_a_recurrent_layer_keeps_its_options(make):
    """In its config; the order of a seed's two numbers matters."""
    layers = [
        make(
            *(3, "tanh", "sigmoid", "half"),
            **{"dropout": 0.5, "dropout_seed": seed},
            **{"options": {"a": "b"}, "options_bwd": {}},
        )
        for seed in ((1, 2), (2, 1), (1, 2))
    ]
    layers[2] = make.from_config(layers[2].get_config())
    x = np.ones([2, 3, 4], "float32")
    for layer in layers:
        layer.build(x.shape)
        layer.set_weights(layers[0].get_weights())
    one, other, same = (np.asarray(layer(x, training=True)) for layer in layers)

    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert layers[2].partials_dtype == "half"
    assert tuple(layers[2].dropout_seed) == (1, 2)
    assert dict(layers[2].options) == {"a": "b"}
    assert dict(layers[2].options_bwd) == {}


def test_groups_are_strided_by_default():
    """Channel c is in group c % groups, on either axis of the channels."""
    found = np.asarray(ipu_layers.GroupNorm(2)(x))
    other = np.asarray(ipu_layers.GroupNorm(2, channels_axis=1)(x.swapaxes(1, 2)))
    for group in range(2):
        part = x[:, :, group::2]
        mean = part.mean((1, 2), keepdims=True)
        want = (part - mean) / np.sqrt(part.var((1, 2), keepdims=True) + 1e-3)
        assert np.allclose(found[:, :, group::2], want, atol=1e-5)
    assert np.allclose(other.swapaxes(1, 2), found, atol=1e-5)


def test_time_major_swaps_the_first_axes():
    """Of inputs and of sequences of outputs."""
    usual = ipu_layers.LSTM(5, return_sequences=True)
    major = ipu_layers.LSTM(5, return_sequences=True, time_major=True)
    usual(x)
    major(x.swapaxes(0, 1))
    major.set_weights(usual.get_weights())

    found = np.asarray(major(x.swapaxes(0, 1)))
    assert np.allclose(found.swapaxes(0, 1), np.asarray(usual(x)), atol=1e-6)


def test_an_embedding_gives_rows():
    """Of two dimensions only."""
    layer = ipu_layers.Embedding(7, 3, serialization_factor=1)
    rows = np.array([[1, 2], [6, 0]])

    assert np.array_equal(layer(rows), np.asarray(layer.embeddings)[rows])
    with pytest.raises(
        ValueError, match=r"should be a tensor of shape \[batch, input_le"
    ):
        layer(np.array([1, 2]))


def test_checkpoints_and_dropout_in_a_model_on_the_ipu():
    """A nest goes through; a pair of seeds draws the same numbers in each model."""
    found = []
    with models.scope():
        for _ in range(2):
            inputs = keras.Input((models.FEATURES,))
            dropped = ipu_layers.Dropout(0.5, seed=(3, 4))(inputs)
            one, other = ipu_layers.RecomputationCheckpoint()((dropped, inputs))
            same = ipu_layers.AssumeEqualAcrossReplicas()(one + other)
            model = keras.Model(inputs, keras.layers.Dense(4)(same))
            model.set_weights([np.ones([6, 4]), np.zeros(4)])
            model.compile("sgd", models.cross_entropy(), steps_per_execution=8)
            history = model.fit(models.dataset(), verbose=0, shuffle=False)
            found.append(history.history["loss"])

    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: ipu_layers.GroupNorm(4)(x),
            ValueError,
            "6 channels is not commensurate",
        ),
        (lambda: ipu_layers.GroupNorm(9)(x), ValueError, "Invalid groups 9 for 6"),
        (lambda: ipu_layers.GroupNorm(channels_axis=2), ValueError, "must be 1 or -1"),
        (lambda: ipu_layers.LSTM(3, activation="elu"), ValueError, "`activation` must"),
        (
            lambda: ipu_layers.GRU(3, recurrent_activation="relu"),
            ValueError,
            "`recurrent_activation` must be one of tanh",
        ),
        (lambda: ipu_layers.SerialDense(3, 0, "kernel_rows"), ValueError, "at least 1"),
        (
            lambda: ipu_layers.SerialDense(3, 1, "rows"),
            ValueError,
            "must be one of input",
        ),
        *(
            (
                lambda dimension=dimension: ipu_layers.SerialDense(3, 5, dimension)(x),
                ValueError,
                rf"\(5\) must divide the size of {dimension} \({size}\)",
            )
            for dimension, size in (
                ("input_columns", x.shape[0] * x.shape[1]),
                ("input_rows_kernel_columns", x.shape[2]),
                ("kernel_rows", 3),
            )
        ),
        (lambda: ipu_layers.Dropout(0.1, seed=(1, 2, 3)), ValueError, "a pair of ints"),
        (
            lambda: ipu_layers.Dropout(0.1, seed=1.5),
            TypeError,
            "must be an int or a pair of ints, got float 1.5",
        ),
        (
            lambda: ipu_layers.Dropout(0.1, seed=(1, 2.5)),
            TypeError,
            "`seed` must be an int, got float 2.5",
        ),
        (
            lambda: ipu_layers.Dropout(None),
            TypeError,
            "`rate` must be a number, got No",
        ),
        (
            lambda: ipu_layers.GroupNormalization(channels_axis=True),
            ValueError,
            "must be 1 or -1, got True",
        ),
        (
            lambda: ipu_layers.GroupNormalization(True)(x),
            ValueError,
            "Invalid groups True for",
        ),
        (
            lambda: ipu_layers.Embedding(3, 3, serialization_factor=0.5),
            TypeError,
            "`serialization_factor` must be an int, got float 0.5",
        ),
        (
            lambda: ipu_layers.SerialDense(3, True, "kernel_rows"),
            ValueError,
            "at least 1, but was True",
        ),
        (lambda: ipu_layers.LSTM(None), TypeError, "`units` must be an int, got None"),
        (lambda: ipu_layers.GRU(0), ValueError, "`units` must be at least 1, got 0"),
        (
            lambda: ipu_layers.GRU(2, partials_dtype=16),
            TypeError,
            "`partials_dtype` must be a dtype such as tf.float32 or None, got int 16",
        ),
        (
            lambda: ipu_layers.Embedding(10, 4, serialization_factor=3),
            ValueError,
            r"serialization_factor \(3\) must divide the size .*`input_dim` \(10\)",
        ),
        (
            lambda: ipu_layers.LSTM(2, options=["a"]),
            TypeError,
            r"`options` must be a dict of options or None, got list \['a'\]",
        ),
        (
            lambda: ipu_layers.GRU(2, options_bwd="a"),
            TypeError,
            "`options_bwd` must be a dict of options or None, got str 'a'",
        ),
        (
            lambda: ipu_layers.LSTM(2, dropout="a"),
            TypeError,
            "`dropout` must be a number, got str 'a'",
        ),
        (
            lambda: ipu_layers.GRU(2, recurrent_dropout="a"),
            TypeError,
            "`recurrent_dropout` must be a number, got str 'a'",
        ),
        (
            lambda: ipu_layers.Embedding(3, 3, mask_zero=True),
            NotImplementedError,
            "does not support __init__ argument mask_zero",
        ),
        (lambda: ipu_layers.EffectiveTransformer, AttributeError, "MultiHeadAttention"),
        (lambda: ipu_layers.Nonsense, AttributeError, "'ipufeed.keras.layers' has no"),
        (
            lambda: ipu_layers.CaptureUpstreamGradients,
            AttributeError,
            "Use GradientCaptureTape",
        ),
        (lambda: ipu_keras.losses.CTCLoss, AttributeError, "Use tf.nn.ctc_loss"),
        (
            lambda: ipu_keras.Nonsense,
            AttributeError,
            "'ipufeed.keras' has no attribute",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_layer_refuses(make, error, words):
    """Each error says what must be what, or what to use."""
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("kind", ["Group", "Instance", "Layer"])
@pytest.mark.parametrize(
    ("epsilon", "error", "words"),
    [
        (-1.0, ValueError, r"`epsilon` must be finite and at least 0, got -1\.0"),
        (float("nan"), ValueError, "finite and at least 0, got nan"),
        ("1", TypeError, "`epsilon` must be a number, got str '1'"),
    ],
    ids=["negative", "nan", "text"],
)
def test_an_epsilon_of_a_layer_is_checked(kind, epsilon, error, words):
    """As that of the functions: the results would be NaN."""
    with pytest.raises(error, match=words):
        getattr(ipu_layers, f"{kind}Normalization")(epsilon=epsilon)


def test_keras_has_them_under_its_names():
    """`keras.ipu`, also of TensorFlow's, `tensorflow.python.ipu.keras`, and the addons."""
    import tensorflow as tf

    from ipufeed import compat

    compat.install()
    from ipu_tensorflow_addons.keras import optimizers as of_addons
    from ipu_tensorflow_addons.keras.layers import GroupNormalization
    from tensorflow.keras.ipu import PipelineStage
    from tensorflow.python.ipu import keras as of_python
    from tensorflow.python.ipu.keras import layers as of_layers

    assert keras.ipu.PipelineStage is PipelineStage is ipu_keras.PipelineStage
    assert tf.keras.ipu is of_python is ipu_keras
    assert of_layers is ipu_layers
    assert GroupNormalization is ipu_layers.GroupNormalization
    assert of_addons is ipu_keras.optimizers
    assert of_layers.PopnnLSTM is of_layers.LSTM
