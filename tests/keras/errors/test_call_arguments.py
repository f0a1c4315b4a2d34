"""Arguments of compile, fit, evaluate and predict are checked before anything runs."""

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf

X = keras_models.arrays()[0]
Y = X[:, :1]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0, ValueError, "must be at least 1, got 0"),
        (-2, ValueError, "must be at least 1, got -2"),
        (True, TypeError, "must be an int, got bool True"),
        (2.0, TypeError, "must be an int, got float 2.0"),
        (
            "auto",
            TypeError,
            "must be an int, got 'auto'. Give the steps of an execution",
        ),
        ([2], TypeError, r"must be an int, got list \[2\]"),
    ],
)
def test_steps_per_execution_is_checked_by_compile(strategy, kind, value, error, words):
    """By name, and also as the seventh argument."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        with pytest.raises(error, match=f"`steps_per_execution` {words}"):
            model.compile("sgd", "mse", steps_per_execution=value)
        with pytest.raises(error, match=f"`steps_per_execution` {words}"):
            model.compile("sgd", "mse", None, None, None, False, value)


@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
def test_steps_per_execution_divides_the_steps_of_each_call(strategy, kind, call):
    """The error has the largest number that does; an int of NumPy is one."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=np.int64(3))
    data = (X,) if call == "predict" else (X, Y)
    with pytest.raises(ValueError, match=r"\(3\) must be a .* \(8\) .*Compile with 2,"):
        getattr(model, call)(*data, batch_size=8, verbose=0)


@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
def test_values_other_than_callbacks_are_named(strategy, kind, call):
    """Before anything runs; nested ones are callbacks as in Keras."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", "mse")
    data = (X,) if call == "predict" else (X, Y)
    known = kind.callbacks.Callback()
    for wrong, words in ((3, "int 3"), (kind.callbacks.Callback, "the class Callback")):
        with pytest.raises(TypeError, match=f"`callbacks` must.* number 1 is {words}"):
            getattr(model, call)(*data, verbose=0, callbacks=[[known], wrong])
    getattr(model, call)(*data, verbose=0, callbacks=[[known]])


def test_what_is_set_after_compile_is_checked_by_the_call(strategy):
    """The attribute of Keras 3 takes anything."""
    with strategy.scope():
        model = keras_models.compiled(keras_models.dense)
    model.steps_per_execution = 2.5
    with pytest.raises(TypeError, match="`steps_per_execution` must be an int, got fl"):
        model.fit(keras_models.dataset(), verbose=0, shuffle=False)


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("batch_size", 0, "at least 1, got 0"),
        ("batch_size", -1, "at least 1, got -1"),
        ("batch_size", 8.0, "an int, got float"),
        ("batch_size", True, "an int, got bool"),
        ("batch_size", "8", "an int, got str"),
        ("validation_batch_size", 0, "at least 1"),
        ("epochs", -1, r"at least \d, got -1"),
        ("epochs", 1.5, "an int, got float"),
        ("epochs", True, "an int, got bool"),
        ("epochs", None, "an int, got NoneType"),
        ("initial_epoch", -1, "at least 0, got -1"),
        ("initial_epoch", 0.5, "an int, got float"),
        ("validation_split", 1.5, "at least 0 and below 1, got 1.5"),
        ("validation_split", -0.1, "at least 0 and below 1, got -0.1"),
        ("validation_split", True, "a number, got bool"),
        ("validation_split", "0.5", "a number, got str"),
        ("validation_freq", 0, "at least 1, got 0"),
        ("validation_steps", 0, "a positive int, got 0.*all of the data"),
        ("validation_steps", "1", "an int or None, got str"),
        ("steps_per_epoch", 0, "a positive int, got 0"),
        ("steps_per_epoch", float("nan"), "a positive int, got nan"),
        ("steps_per_epoch", float("inf"), "a positive int, got inf"),
        ("steps_per_epoch", -1, "a positive int, got -1"),
        ("steps_per_epoch", 1.5, "a positive int, got 1.5"),
        ("steps_per_epoch", True, "an int or None, got bool"),
        ("steps_per_epoch", [1], "an int or None, got list"),
        ("class_weight", [1.0], "a dict of a weight for each class"),
        ("x", None, "the data to read, got None"),
        ("x", np.array(3.0), "arrays or tensors with a row .*got ndarray array"),
        ("y", 3, "arrays or tensors with a row for each of `x`, got int 3"),
        ("sample_weight", 3, "arrays or tensors with a row for each of `x`, got int 3"),
        ("sample_weight", tf.constant(3.0), "arrays or tensors with a row for each"),
        ("validation_data", 3, "a tuple of arrays or tensors, .*generator, got int 3"),
    ],
)
def test_arguments_of_fit_are_checked(model, argument, value, words):
    """The error has the argument, the value and the rule; no program is built."""
    given = {"x": X, "y": Y, "batch_size": 8, argument: value}
    with pytest.raises((TypeError, ValueError), match=f"`{argument}` must be {words}"):
        model.fit(**given, verbose=0)
    assert keras_models.programs(model) == {}


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_arguments_of_the_other_calls_are_checked(model, call):
    """Likewise."""
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, drop_remainder=True)
    run = getattr(model, call)
    for value, words in ((0, "a positive int, got 0"), ("1", "an int or None")):
        with pytest.raises((TypeError, ValueError), match=f"`steps` must be {words}"):
            run(data, steps=value, verbose=0)
    with pytest.raises(TypeError, match="`batch_size` must be an int, got float"):
        run(X, batch_size=2.5, verbose=0)


def test_scalars_in_the_place_of_rows_are_named(model):
    """Of validation data with the number of the part."""
    with pytest.raises(TypeError, match=r"`sample_weight` must be .* got int 3"):
        model.evaluate(X, Y, sample_weight=3, verbose=0)
    for data, words in (
        ((3, Y), r"data\[0\]` .*int 3"),
        ((X, "a"), r"data\[1\]` .*'a'"),
    ):
        with pytest.raises(TypeError, match=f"`validation_{words}"):
            model.fit(X, Y, validation_data=data, verbose=0)


def test_no_epochs_are_what_they_are_in_stock_keras(model, kind):
    """Keras 3 trains nothing, tf_keras refuses it."""
    if kind is keras:
        assert model.fit(X, Y, 8, epochs=0, verbose=0).history == {}
        return
    with pytest.raises(ValueError, match="`epochs` must be at least 1, got 0"):
        model.fit(X, Y, 8, epochs=0, verbose=0)


def test_whole_numbers_of_steps_may_be_floats(strategy, kind):
    """As from a division of lengths, which programs make."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=4)
    history = model.fit(X, Y, np.int64(8), verbose=0, steps_per_epoch=len(X) / 8)

    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize("data", [[], (), {}], ids=["list", "tuple", "dict"])
@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
def test_no_array_at_all_is_refused(strategy, kind, call, data):
    """Keras 3 pops a size from an empty set."""
    with strategy.scope():
        model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        model.compile("sgd", "mse")
    words = f"`x` must be the data to read, got an empty {type(data).__name__}"
    with pytest.raises(ValueError, match=words):
        getattr(model, call)(data, verbose=0)
