"""Data and results of dtypes that the queues do not carry."""

import keras_models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed import _native
from ipufeed.keras.data.dtypes import CASTS, narrow, narrow_arrays
from ipufeed.keras.pipelined_program import compiled

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
# A result of each dtype that outfeeds do not carry, computed from float32.
RESULTS = {
    "int64": lambda x: tf.argmax(x, -1) + 2**40,
    "uint32": lambda x: tf.cast(tf.abs(x) * 3e8, tf.uint32),
    "int16": lambda x: tf.cast(x * -7, tf.int16),
    "bfloat16": lambda x: tf.cast(x, tf.bfloat16),
    "float64": lambda x: tf.cast(x, tf.float64) * 1.0000001,
    "complex64": lambda x: tf.complex(x, -x),
}


def of_all_dtypes(kind):
    inputs = kind.Input((4,))
    hidden = kind.layers.Dense(3, kernel_initializer="ones")(inputs)
    hidden = kind.layers.Dense(3, kernel_initializer="identity")(hidden)
    outputs = [hidden]
    for make in RESULTS.values():
        if kind is keras_models.keras:
            shape = tuple(make(tf.zeros([4, 3])).shape[1:])
            outputs.append(kind.layers.Lambda(make, output_shape=shape)(hidden))
        else:
            outputs.append(kind.layers.Lambda(make)(hidden))
    return kind.Model(inputs, outputs)


@pytest.mark.parametrize("how", ["synchronous", "asynchronous", "pipelined"])
def test_predict_returns_each_dtype(strategy, kind, how):
    want = of_all_dtypes(kind).predict(X, batch_size=4, verbose=0)
    keras_models.configure(2 if how == "pipelined" else 1)
    with strategy.scope():
        model = of_all_dtypes(kind)
        model.compile(steps_per_execution=4)
        model.set_asynchronous_callbacks(how == "asynchronous")
        if how == "pipelined":
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
            stages = model.get_pipeline_stage_assignment()
            for number, each in enumerate(stages):
                each.pipeline_stage = int(number > 0)
            model.set_pipeline_stage_assignment(stages)
        found = model.predict(X, batch_size=4, verbose=0)
    for ours, theirs in zip(found, want, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("sums", [False, True])
def test_integer_metrics(strategy, sums):
    """Pipelines may sum results in the outfeed: bits of halves cannot be added."""
    import keras

    class Updates(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="updates")
            self.n = self.add_weight(shape=(), dtype="int64", initializer="zeros")

        def update_state(self, y, prediction, sample_weight=None):
            self.n.assign_add(2**33)

        def result(self):
            return self.n + 0

    keras_models.configure(2)
    with strategy.scope():
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(2)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
        model.compile("sgd", "mse", metrics=[Updates()], steps_per_execution=8)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4, accumulate_outfeed=sums
        )
        stages = model.get_pipeline_stage_assignment()
        for number, each in enumerate(stages):
            each.pipeline_stage = int(number > 0)
        model.set_pipeline_stage_assignment(stages)
        logs = model.evaluate(X, X[:, :1], batch_size=4, verbose=0, return_dict=True)
    # Sums become the mean over the eight mini-batches.
    assert logs["updates"] == (4.5 if sums else 8) * 2**33


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint64", "bfloat16"])
def test_inputs_are_cast(strategy, kind, dtype):
    keras_models.configure(1)
    values = tf.cast(tf.abs(X) * 4, dtype)
    data = tf.data.Dataset.from_tensor_slices(values).batch(4, drop_remainder=True)
    with strategy.scope():
        model = kind.Sequential([kind.Input((4,)), kind.layers.Dense(1)])
        model.compile(steps_per_execution=4)
        found = model.predict(data, verbose=0)
        kernel, _ = model.get_weights()
    want = tf.cast(values, tf.float32).numpy() @ kernel
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [2**31, 2**63 + 5, 2**64 - 1])
def test_large_uint64_do_not_fit(value):
    """Also where their lower half is a number that would be cast back to the same."""
    array = np.full([4], value, "uint64")
    with pytest.raises(ValueError, match=r"of uint64, must .* fit int32"):
        narrow_arrays(array)
    with pytest.raises(tf.errors.InvalidArgumentError, match="fit int32"):
        next(iter(narrow(tf.data.Dataset.from_tensors(array))))


@pytest.mark.parametrize("rows", [1, 1 << 20], ids=["small", "large"])
@pytest.mark.parametrize("dtype", CASTS)
def test_a_dataset_is_cast(dtype, rows):
    """Small elements by the native dataset, large ones by a parallel map; others stay."""
    values = tf.cast(tf.constant([[0, 1, 127]] * rows), dtype)
    if dtype not in ("uint64", "uint32", "uint16"):
        values = tf.concat([values, -values], 1)
    text = tf.constant("as it is")
    data = tf.data.Dataset.from_tensors({"a": values, "b": (text, values)}).repeat(3)
    narrowed = narrow(data.prefetch(2))

    assert ("Narrow" in type(narrowed).__name__) == (rows == 1)
    want = tf.TensorSpec(values.shape, CASTS[dtype])
    assert narrowed.element_spec == {
        "a": want,
        "b": (tf.TensorSpec([], "string"), want),
    }
    found = list(narrowed)
    assert int(narrowed.cardinality()) == len(found) == 3
    for each in found:
        assert each["b"][0].numpy() == b"as it is"
        for cast in (each["a"], each["b"][1]):
            assert cast.dtype == CASTS[dtype]
            np.testing.assert_array_equal(cast, tf.cast(values, cast.dtype))


@pytest.mark.parametrize("rows", [1, 1 << 18], ids=["small", "large"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**32])
def test_an_integer_that_does_not_fit_is_an_error_of_the_dataset(rows, value):
    """With the component's number; those around it come."""
    values = np.array([-(2**31), value, 2**31 - 1])[:, None].repeat(rows, 1)
    data = narrow(tf.data.Dataset.from_tensor_slices((values, values + 0.5)).take(3))
    iterator = iter(data)

    first = next(iterator)
    assert (first[0].numpy() == -(2**31)).all()
    assert (first[1].numpy() < 0).all()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Component 0 .* of int64"
    ):
        next(iterator)
    assert (next(iterator)[0].numpy() == 2**31 - 1).all()


def test_an_iterator_of_a_cast_dataset_can_be_saved(tmp_path):
    """And goes on where it was."""
    iterator = iter(narrow(tf.data.Dataset.range(5)))
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "iterator"))
    assert next(iterator).numpy() == 1
    again = iter(narrow(tf.data.Dataset.range(5)))
    tf.train.Checkpoint(iterator=again).restore(path)

    assert [int(each) for each in again] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("types", "misfits", "words"),
    [
        (["int32"], ["", ""], "one for each of 1 components, got 1 and 2"),
        (["int32", "int32"], [""], "one for each of 1 components, got 2 and 1"),
        (["float32"], [""], "Component 0 of int64 has no cast to float"),
    ],
)
def test_the_operation_refuses_what_it_cannot_cast(types, misfits, words):
    """Called by hand."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        _native.load().ipufeed_narrow_dataset(
            tf.data.Dataset.range(3)._variant_tensor,
            misfits=misfits,
            output_types=types,
            output_shapes=[[]] * len(types),
        )


def test_complex_inputs_are_refused_with_what_to_do(strategy, kind):
    with strategy.scope():
        model = kind.Sequential([kind.Input((4,)), kind.layers.Dense(1)])
        model.compile(steps_per_execution=4)
        data = tf.data.Dataset.from_tensor_slices(tf.complex(X, X))
        with pytest.raises(ValueError, match=r"Component 0 .* complex64.* tf\.complex"):
            model.predict(data.batch(4, drop_remainder=True), verbose=0)


def test_programs_of_several_models_are_not_traces_of_one(monkeypatch):
    """TensorFlow counts traces by a function's code, which all models' programs share."""
    from tensorflow.python.platform import tf_logging

    warnings = []
    monkeypatch.setattr(tf_logging, "warning", lambda *words: warnings.append(words))
    for number in range(8):

        def program(number=number):
            return tf.constant(number)

        compiled(program, f"program_{number}", converts=False)()
    assert not [each for each in warnings if "retracing" in str(each)]
