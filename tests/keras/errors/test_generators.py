"""Generators and similar objects whose batches differ, or that end early."""

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

X = keras_models.arrays()[0]
Y = X[:, :1]


@pytest.fixture(scope="module")
def model(strategy, kind):
    with strategy.scope():
        made = kind.Sequential([kind.Input((6,)), kind.layers.Dense(1)])
        made.compile("sgd", "mse", steps_per_execution=4)
    return made


def batches(other=None, at=5, number=8):
    """Batches of 8 rows, and one that differs."""
    rows = [(X[8 * i :][:8], Y[8 * i :][:8]) for i in range(number)]
    if other is not None:
        rows[at] = other
    return rows


def sequence_of(kind, rows):
    base = keras.utils.PyDataset if kind is keras else tf_keras.utils.Sequence

    class Rows(base):
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            return rows[index]

    return Rows()


DIFFERENT = {
    "smaller": (
        (X[:3], Y[:3]),
        r"component 0 has the shape \(3, 6\), and not \(8, 6\).*`batch\(n, drop_rem",
    ),
    "wider": (
        (X[:8], np.zeros([8, 2], "float32")),
        r"component 1 has the shape \(8, 2\), and not \(8, 1\).*Give all batches",
    ),
    "fewer": ((X[:8],), "it has 1 components, and the first one 2"),
    "texts": (
        (np.full([8, 6], "a"), Y[:8]),
        "component 0 has the dtype <U1, which cannot be converted to float32",
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_batch_that_differs_is_named(model, kind, case):
    """By its number; the model trains afterwards."""
    other, words = DIFFERENT[case]
    for data, name in (
        (iter_of(batches(other)), "generator"),
        (sequence_of(kind, batches(other)), type(sequence_of(kind, [])).__base__),
    ):
        name = name if isinstance(name, str) else name.__name__
        told = rf"^Batch 5 \(counted from 0\) of the {name} differs .*{words}"
        with pytest.raises(ValueError, match=told):
            model.fit(data, steps_per_epoch=8, verbose=0, shuffle=False)
    history = model.fit(iter_of(batches()), steps_per_epoch=8, verbose=0, shuffle=False)

    assert np.isfinite(history.history["loss"]).all()


def iter_of(rows):
    yield from rows


def test_labels_that_would_be_truncated_are_refused(model):
    """Keras converts float64 to float32 and integers to floats, but not floats to ints."""
    whole = [(x, np.zeros([8, 1], "int32")) for x, _ in batches()]
    whole[5] = (X[:8].astype("float64"), Y[:8])
    with pytest.raises(
        ValueError, match="component 1 has the dtype float32, which can"
    ):
        model.fit(iter_of(whole), steps_per_epoch=8, verbose=0, shuffle=False)
    wide = batches((X[:8].astype("float64"), np.zeros([8, 1], "int32")))
    model.fit(iter_of(wide), steps_per_epoch=8, verbose=0, shuffle=False)


@pytest.mark.parametrize("call", ["fit", "evaluate", "predict", "validation"])
def test_data_that_end_early_are_an_error(model, call):
    """With the number of batches that there were, and that there must be."""
    data = iter_of(batches(number=5))
    run = {
        "fit": lambda: model.fit(data, steps_per_epoch=8, verbose=0, shuffle=False),
        "evaluate": lambda: model.evaluate(data, steps=8, verbose=0),
        "predict": lambda: model.predict(data, steps=8, verbose=0),
        "validation": lambda: model.fit(
            *(X, Y, 8), validation_data=data, validation_steps=8, verbose=0
        ),
    }[call]
    told = "ended after 5 batches, in an epoch of 8 steps, which takes 8 batches"
    with pytest.raises(tf.errors.OutOfRangeError, match=told):
        run()


def test_so_do_datasets_of_unknown_size(model):
    """Their batches are not counted."""
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, drop_remainder=True)
    data = data.filter(lambda x, y: tf.reduce_all(y < 100)).take(6)
    with pytest.raises(tf.errors.OutOfRangeError, match="have ended, in an epoch of 8"):
        model.fit(data, steps_per_epoch=8, verbose=0, shuffle=False)


def test_a_generator_without_a_batch_is_refused(model):
    """Before anything else."""
    with pytest.raises(ValueError, match=r"at least one batch|before its first batch"):
        model.fit(iter_of([]), steps_per_epoch=8, verbose=0, shuffle=False)


def test_callbacks_on_a_thread_do_not_hide_the_batch(strategy, kind):
    """Asynchronous callbacks, and the stages of a pipeline."""
    keras_models.configure(2)
    try:
        with IPUStrategy().scope():
            made = kind.Sequential(
                [kind.Input((6,)), kind.layers.Dense(3), kind.layers.Dense(1)]
            )
            made.compile("sgd", "mse", steps_per_execution=8)
        made.set_asynchronous_callbacks(True)
        data = batches(*[DIFFERENT["smaller"][0]])
        for stages in (None, [0, 1]):
            if stages:
                made.set_pipeline_stage_assignment(stages)
                made.set_pipelining_options(4)
            with pytest.raises(ValueError, match=r"^Batch 5 .* of the generator"):
                made.fit(iter_of(data), steps_per_epoch=8, verbose=0, shuffle=False)
    finally:
        keras_models.configure(1)
