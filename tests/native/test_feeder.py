"""What the feeder promises: the elements of iter(dataset), once each, or its error."""

import numpy as np
import pytest
import tensorflow as tf
from feeder_datasets import ALL, double
from helpers import (
    run_op,
    sleeping,
)
from tensorflow.python.data.experimental.ops import testing


def generator_of(count):
    def generate():
        for number in range(count):
            yield np.full([2, 3], number, np.float32)

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([2, 3], tf.float32)
    )


def with_table():
    keys = tf.constant(["a", "b", "c"])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.constant([1, 2, 3])), -1
    )
    dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "c", "d"])
    return dataset.map(table.lookup)


def with_variable():
    variable = tf.Variable(3)
    dataset = tf.data.Dataset.range(7).map(lambda x: tf.cast(x, tf.int32) + variable)
    dataset._keep = variable  # as a training script would keep its variables
    return dataset


def interleaved():
    return tf.data.Dataset.range(4).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(5),
        cycle_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
    )


def with_everything():
    dataset = tf.data.Dataset.range(40).shuffle(16).cache()
    dataset = dataset.map(lambda x: (x, {"y": x * 2}), num_parallel_calls=2)
    return dataset.batch(4).prefetch(2)


def ragged():
    return tf.data.Dataset.range(1, 6).map(
        lambda n: tf.RaggedTensor.from_row_lengths(tf.range(n), [n])
    )


def sparse():
    return tf.data.Dataset.range(3).map(
        lambda n: tf.sparse.SparseTensor([[n]], [1.0], [5])
    )


def python_function():
    return tf.data.Dataset.range(6).map(
        lambda x: tf.py_function(lambda v: v + 1, [x], tf.int64)
    )


def add_one(x):
    return x + 1


DATASETS = {
    "range": (lambda: tf.data.Dataset.range(10), 10, 80),
    "table": (with_table, 4, 16),
    "variable": (with_variable, 7, 28),
    "interleave": (interleaved, 20, 160),
    "everything": (with_everything, 10, 640),
    "generator": (lambda: generator_of(5), 5, 120),
    "py_function": (python_function, 6, 48),
    "numpy_function": (
        lambda: tf.data.Dataset.range(4).map(
            lambda x: tf.numpy_function(np.square, [x], tf.int64)
        ),
        4,
        32,
    ),
    "strings": (lambda: tf.data.Dataset.from_tensor_slices(["ab", "", "cde"]), 3, 5),
    "ragged": (ragged, 5, 8 * 15 + 5 * 16),
    "sparse": (sparse, 3, 3 * (8 + 4 + 8)),
    "filter": (lambda: tf.data.Dataset.range(9).filter(lambda x: x % 2 == 0), 5, 40),
    "zip": (
        lambda: tf.data.Dataset.zip(
            (tf.data.Dataset.range(3), tf.data.Dataset.range(4))
        ),
        3,
        48,
    ),
    "bfloat16": (
        lambda: tf.data.Dataset.from_tensors(tf.zeros([8], tf.bfloat16)),
        1,
        16,
    ),
    "empty": (lambda: tf.data.Dataset.range(0), 0, 0),
}


@pytest.mark.parametrize("copy", [False, True], ids=["by reference", "copied"])
@pytest.mark.parametrize("name", DATASETS)
def test_each_element_is_delivered_once(name, copy):
    """Every kind of dataset ends after as many elements and bytes as it has."""
    make, elements, total_bytes = DATASETS[name]

    counters, outputs = run_op(make(), copy=copy, **ALL)

    assert outputs["code"] == 0, outputs["message"]
    assert counters["ended"] == 1
    assert (counters["elements"], counters["bytes"]) == (elements, total_bytes)
    assert outputs["epochs"][:, 0].sum() == elements
    assert len(outputs["stamps"]) == elements
    assert (np.diff(outputs["stamps"]) >= 0).all()


def test_the_datasets_are_counted_as_iteration_sees_them():
    """The expected counts above are those of a plain loop, not of our own making."""
    for name, (make, elements, _) in DATASETS.items():
        assert sum(1 for _ in make()) == elements, name


def test_the_pipeline_is_the_one_that_training_runs():
    """Rewrites apply, as for iter(): assert_next fails the dataset if they do not."""
    rewritten = testing.assert_next(["ParallelMapV2", "MapAndBatch", "Prefetch"])
    dataset = tf.data.Dataset.range(100).apply(rewritten)
    dataset = dataset.map(add_one).map(double).batch(4).prefetch(1)

    counters, outputs = run_op(dataset, **ALL)

    assert len(list(dataset)) == 25, "the dataset's own check holds under iter()"
    assert outputs["code"] == 0, outputs["message"]
    assert counters["elements"] == 25
    with pytest.raises(tf.errors.InvalidArgumentError, match="Asserted transformation"):
        run_op(dataset, finalize=False, **ALL)


def test_an_error_in_a_function_keeps_type_text_and_element():
    """Good elements come first, then the error that iter() would have raised."""
    dataset = tf.data.Dataset.range(10).map(
        lambda x: tf.py_function(lambda v: 1 // (5 - int(v)), [x], tf.int64)
    )

    counters, outputs = run_op(dataset, **ALL)
    with pytest.raises(tf.errors.OpError) as by_iteration:
        list(dataset)

    assert counters["elements"] == 5
    assert counters["ended"] == 0
    assert outputs["code"] == by_iteration.value.error_code
    assert "ZeroDivisionError: integer division or modulo by zero" in outputs["message"]


def test_an_error_in_a_generator_keeps_its_text():
    """A Python generator's exception arrives with its own words."""

    def generate():
        yield 1
        yield 2
        raise RuntimeError("the disk is on fire")

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )

    counters, outputs = run_op(dataset, **ALL)

    assert counters["elements"] == 2
    assert "RuntimeError: the disk is on fire" in outputs["message"]


def test_passes_go_through_the_dataset_again():
    """Each pass starts at the beginning, and a generator is called again."""
    calls = []

    def generate():
        calls.append(1)
        yield from range(4)

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )

    counters, outputs = run_op(dataset, passes=3, epoch_per_pass=True)

    assert outputs["epochs"][:, 0].tolist() == [4, 4, 4]
    assert counters["elements"] == 12
    assert len(calls) == 3


def test_many_passes_do_not_wait_for_each_other():
    """Each pass has an AUTOTUNE of its own, whose end is not waited for a minute."""
    dataset = tf.data.Dataset.range(3).map(add_one, num_parallel_calls=tf.data.AUTOTUNE)

    counters, _ = run_op(dataset.prefetch(2), passes=40, epoch_per_pass=True)

    assert counters["elements"] == 120
    assert counters["last_ns"] - counters["requested_ns"] < 30e9


def test_epochs_are_contiguous_and_exact():
    """Epochs share their ends, and hold exactly what was requested."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 4])).repeat()

    counters, outputs = run_op(dataset, epochs=7, elements_per_epoch=13)

    epochs = outputs["epochs"]
    assert epochs[:, 0].tolist() == [13] * 7
    assert epochs[:, 1].tolist() == [13 * 64] * 7
    assert epochs[0, 3] == counters["requested_ns"]
    assert (epochs[1:, 3] == epochs[:-1, 4]).all()


def test_many_epochs_are_added_up_in_few_entries():
    """Each entry holds as many neighbours, but for the last one; nothing is lost."""
    dataset = tf.data.Dataset.range(1000)

    counters, outputs = run_op(dataset, elements_per_epoch=3, most_entries=8)

    epochs, each = outputs["epochs"], counters["epochs_per_entry"]
    assert each == 64  # 334 epochs in at most 8 entries
    assert epochs[:, 0].tolist() == [3 * each] * 5 + [1000 - 15 * each]
    assert epochs[:, 1].sum() == counters["bytes"] == 8000
    assert epochs[0, 3] == counters["requested_ns"]
    assert (epochs[1:, 3] == epochs[:-1, 4]).all()
    assert epochs[-1, 4] == counters["last_ns"]


def test_requested_epochs_are_counted_and_not_their_entries():
    """The last of 20 epochs is the last one, though 4 entries hold them."""
    counters, outputs = run_op(
        tf.data.Dataset.range(10**6), epochs=20, elements_per_epoch=5, most_entries=4
    )

    assert counters["elements"] == 100
    assert outputs["epochs"][:, 0].tolist() == [40, 40, 20]


def test_the_copy_of_the_first_element_is_counted_apart():
    """It is a part of all copies, and the only one that lies in the start-up."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1 << 20])).repeat()

    one, _ = run_op(dataset, epochs=1, elements_per_epoch=1)
    many, _ = run_op(dataset, epochs=1, elements_per_epoch=10)

    assert 0 < one["first_copy_ns"] == one["copy_ns"]
    assert 0 < many["first_copy_ns"] < many["copy_ns"]
    run_ns = many["last_ns"] - many["first_ns"]
    assert many["copy_ns"] - many["first_copy_ns"] <= run_ns


def test_waits_and_cpu_time_are_of_one_window():
    """It begins behind the first element, with room made for the copies."""
    counters, _ = run_op(
        tf.data.Dataset.range(9).map(lambda n: tf.zeros([(n + 2) * 2**16])), **ALL
    )

    assert counters["first_ns"] <= counters["steady_ns"] <= counters["finished_ns"]
    window = counters["finished_ns"] - counters["steady_ns"]
    assert counters["cpu_wall_ns"] == window
    assert 0 <= counters["starved_ns"] <= window


def test_cpu_time_is_counted_next_to_the_clock():
    """Over the same interval, so that their quotient is a number of CPUs."""
    counters, _ = run_op(sleeping(0.01), seconds_ns=5 * 10**8)

    # A thread that has lost its CPU between two clocks may be a little short of it.
    assert 4 * 10**8 < counters["cpu_wall_ns"] < 10**10
    assert 0 < counters["cpu_ns"] < counters["cpu_wall_ns"]
    assert counters["cpu_wall_ns"] <= counters["finished_ns"] - counters["first_ns"]


@pytest.mark.parametrize(
    ("make", "capacity"),
    [
        (lambda: tf.zeros([1024], tf.uint8), 1024),
        (lambda: tf.zeros([1025], tf.uint8), 32),
        (lambda: tf.constant(["a"] * 40), 1024),
        (lambda: tf.ragged.constant([[1, 2], [3]]), 1024),
        (lambda: tf.ragged.constant([[0] * 1000]), 32),
    ],
    ids=["1 kB", "more", "text", "ragged", "large ragged"],
)
def test_the_feed_is_as_long_as_elements_are_small(make, capacity):
    """Variants weigh what they hold. Of huge elements: test_large_elements.py."""
    dataset = tf.data.Dataset.from_tensors(make()).repeat()

    counters, _ = run_op(dataset, epochs=1, elements_per_epoch=5)

    assert counters["capacity"] == capacity


def test_one_large_element_shortens_the_feed():
    """The largest element so far is the one that counts."""
    dataset = tf.data.Dataset.range(50).map(
        lambda n: tf.zeros([tf.where(n == 40, 1 << 20, 1)])
    )

    counters, _ = run_op(dataset, **ALL)

    assert (counters["elements"], counters["capacity"]) == (50, 32)


def test_small_elements_that_go_back_with_their_slots_are_not_mixed_up():
    """A slot that is used again holds the new element: the sum of the text is exact."""
    dataset = tf.data.Dataset.range(20_000).map(
        lambda n: (tf.strings.as_string(n), tf.range(n % 5))
    )

    counters, _ = run_op(dataset, **ALL)

    digits = sum(len(str(n)) for n in range(20_000))
    assert counters["bytes"] == digits + sum(8 * (n % 5) for n in range(20_000))
