"""Data that a compiled program cannot take: the error says which, why, and the remedy."""

import re

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.errors import UnsupportedElementError

X = keras_models.arrays()[0]
Y = X[:, :1]
TEXTS = np.array([["a", "bb"]] * len(X))
ENDLESS = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, True).repeat()


@pytest.mark.parametrize(
    ("call", "data", "words"),
    [
        ("fit", {"x": TEXTS, "y": Y}, r"`x` is of dtype <U2: .*StringLookup"),
        ("fit", {"x": {"a": X, "b": TEXTS}, "y": Y}, r"`x\['b'\]` is of dtype <U2"),
        ("fit", {"x": X, "y": TEXTS.astype("S")}, r"`y` is of dtype \|S2"),
        (
            "fit",
            {"x": X, "y": Y, "sample_weight": TEXTS[:, 0]},
            "`sample_weight` is of",
        ),
        (
            "fit",
            {"x": X, "y": Y, "validation_data": (TEXTS, Y)},
            r"`validation_data\[0\]` is of dtype <U2",
        ),
        ("evaluate", {"x": X, "y": TEXTS}, "`y` is of dtype <U2"),
        ("predict", {"x": TEXTS}, "`x` is of dtype <U2"),
    ],
)
def test_arrays_of_texts_are_named(model, call, data, words):
    """Before anything is compiled, those of the validation too."""
    with pytest.raises(UnsupportedElementError, match=words):
        getattr(model, call)(**data, batch_size=8, verbose=0)
    assert keras_models.programs(model) == {}


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (object, r"got object\. Give it a dtype of numbers, .*pad_sequences"),
        ("datetime64[s]", r"got datetime64\[s\]\. Make them numbers"),
        ([("a", "f4")], "Give its fields as arrays of their own"),
    ],
)
def test_arrays_of_other_kinds_are_named(model, dtype, words):
    with pytest.raises(
        ValueError, match=f"`x` must have a dtype of numbers, .*{words}"
    ):
        model.predict(np.zeros([8, 6], dtype), batch_size=8, verbose=0)


def test_columns_of_a_table_are_checked(model):
    """A pandas.DataFrame has a dtype for each column."""

    class Table:
        shape = (8, 2)
        dtypes = np.array([np.dtype("float32"), np.dtype(object)])

    with pytest.raises(ValueError, match="`x` must have a dtype of numbers"):
        model.predict(Table(), batch_size=8, verbose=0)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_sparse_tensors_are_refused(model, as_dataset):
    """The cause is not a batch of unknown size."""
    sparse = tf.sparse.from_dense(X)
    data = {"x": sparse, "y": Y, "batch_size": 8}
    if as_dataset:
        pairs = tf.data.Dataset.from_tensor_slices((sparse, Y))
        data = {"x": pairs.batch(8, drop_remainder=True)}
    words = r"Component 0 of the data is a SparseTensor .*with tf\.sparse\.to_dense"
    with pytest.raises(ValueError, match=words):
        model.fit(**data, verbose=0, shuffle=False)


@pytest.mark.parametrize(
    ("call", "data", "argument"),
    [
        ("fit", {"x": ENDLESS}, "steps_per_epoch"),
        ("fit", {"x": X, "y": Y, "validation_data": ENDLESS}, "validation_steps"),
        ("evaluate", {"x": ENDLESS}, "steps"),
        ("predict", {"x": ENDLESS.map(lambda x, y: x)}, "steps"),
    ],
)
def test_the_argument_that_ends_the_data_is_named(model, call, data, argument):
    """Before the first epoch, that of the validation too."""
    words = f"the data, which have no end.*: give `{argument}`, or .* `take`"
    with pytest.raises(ValueError, match=words):
        getattr(model, call)(
            **data, verbose=0, **{"fit": {"shuffle": False}}.get(call, {})
        )
    assert keras_models.programs(model) == {}


def test_it_is_named_for_data_of_unknown_size(model):
    data = ENDLESS.take(8).filter(lambda x, y: True)
    words = r"the size of the data\. You .*: give `steps_per_epoch`\.$"
    with pytest.raises(ValueError, match=words):
        model.fit(data, verbose=0, shuffle=False)
    with pytest.raises(ValueError, match=r"give `validation_steps`\.$"):
        model.fit(X, Y, 8, validation_data=data, verbose=0)


@pytest.mark.parametrize(
    ("rows", "batch_size", "words"),
    [
        (
            62,
            8,
            r"62 samples in batches of 8 leave a last batch of 6\. .*to a divisor of 62, "
            "such as 2, or pad your dataset to 64 samples or shorten it to 56, to ensure",
        ),
        (
            20,
            None,
            r"20 samples in batches of 32 leave a last batch of 20\. .*\(currently set to "
            r"32\) to a divisor of 20, such as 20, or pad your dataset to 32 samples, to",
        ),
    ],
)
def test_a_partial_batch_is_counted(model, rows, batch_size, words):
    """The samples, the batch size and the remainder, and what would fit."""
    for call, data in (("fit", (X, Y)), ("evaluate", (X, Y)), ("predict", (X,))):
        with pytest.raises(ValueError, match=words):
            getattr(model, call)(
                *(each[:rows] for each in data), batch_size=batch_size, verbose=0
            )


def test_a_sequence_has_no_batch_size_to_change(model, kind):
    """Its last batch is to be padded or left out."""
    base = kind.utils.Sequence if kind.__name__ == "tf_keras" else kind.utils.PyDataset

    class Batches(base):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return X[: 8 - index // 2], Y[: 8 - index // 2]

    words = "the last of 3 batches has the size 7, the first one 8. Pad it, or leave it"
    with pytest.raises(ValueError, match=words):
        model.fit(Batches(), verbose=0, shuffle=False)


@pytest.mark.parametrize("data", [3, 0.5, True, "a.csv", b"a"])
@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
def test_a_single_value_is_refused(model, call, data):
    """Its type and value are named, before Keras looks for an adapter of it."""
    with pytest.raises(
        TypeError, match=rf"^`x` must be .*, got {type(data).__name__} {data!r}\.$"
    ):
        getattr(model, call)(data, verbose=0)


@pytest.mark.parametrize("as_dataset", [False, True], ids=["array", "dataset"])
def test_a_missing_target_is_named(model, as_dataset):
    """In a model with a loss; tf_keras has the text, Keras 3 failed inside the loss."""
    x = np.ones((8, 6), np.float32)
    data = tf.data.Dataset.from_tensors(x).repeat(4) if as_dataset else x
    with pytest.raises(
        ValueError, match=r"Target data is missing\. .* with loss=mse, .* in `fit\(\)`"
    ):
        model.fit(
            data,
            verbose=0,
            shuffle=not as_dataset,
            batch_size=None if as_dataset else 4,
        )


def test_a_model_with_a_loss_of_its_own_needs_no_target(strategy, kind):
    """It has nothing from `compile` that would take one."""

    class Norm(kind.layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_mean(x**2))
            return x

    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1), Norm()])
        model.compile("sgd")
        x = np.ones((8, 6), np.float32)
        history = model.fit(x, verbose=0, batch_size=4, epochs=2).history
    assert history["loss"][1] < history["loss"][0]


@pytest.mark.parametrize("loss", [[], (), {}, [None]], ids=repr)
@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_a_loss_without_any_is_named(strategy, kind, loss, call):
    """Keras 3 raised an IndexError; evaluate of tf_keras has the loss 0, as in stock."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", loss)
    x = np.ones((8, 6), np.float32)
    if kind is not keras and call == "evaluate":
        assert model.evaluate(x, x[:, :1], 4, verbose=0) == 0
        return
    words = (
        "No loss found" if kind is not keras else f"with loss={re.escape(str(loss))}"
    )
    with pytest.raises(ValueError, match=words):
        getattr(model, call)(x, x[:, :1], 4, verbose=0)


def test_a_model_without_an_optimizer_is_evaluated_and_not_trained(strategy, kind):
    """Keras 3 looked for `apply_gradients` of None; tf_keras refuses it in `compile`."""
    x = np.ones((8, 6), np.float32)
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        if kind is not keras:
            with pytest.raises(ValueError, match="optimizer identifier: None"):
                model.compile(None, "mse")
            return
        model.compile(None, "mse")
    assert np.isfinite(model.evaluate(x, x[:, :1], 4, verbose=0))
    with pytest.raises(ValueError, match="with optimizer=None, and `fit` needs one"):
        model.fit(x, x[:, :1], 4, verbose=0)
