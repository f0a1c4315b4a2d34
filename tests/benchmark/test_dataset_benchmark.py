"""What the classic functions promise: the JSON of old, and errors that are raised."""

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf
from helpers import run_python

from ipufeed.benchmark.dataset_benchmark import (
    dataset_benchmark,
    infeed_benchmark,
    partial_epochs,
)
from ipufeed.device.program import compiler, loops, scopes
from ipufeed.queues import IPUInfeedQueue

FIELDS = [
    "bandwidth",
    "elements_per_second",
    "elements_processed",
    "time_elapsed",
    "total_bytes_processed",
]


def endless():
    return tf.data.Dataset.from_tensors(tf.zeros([4, 4])).repeat()


def check(result, epochs, elements):
    """The classic result, with exact counts."""
    text = result[0].decode()
    parsed = json.loads(text)
    assert list(parsed) == ["epochs"]
    assert len(parsed["epochs"]) == epochs
    for epoch in parsed["epochs"]:
        assert list(epoch) == FIELDS
        assert epoch["elements_processed"] == elements
        assert epoch["total_bytes_processed"] == elements * 64
        assert epoch["elements_per_second"] == pytest.approx(
            elements / epoch["time_elapsed"]
        )
    assert "\n" in text


@pytest.mark.parametrize("do_memcpy", [True, False])
def test_eager_mode_returns_a_tensor_of_one_string(do_memcpy):
    """`.numpy()[0].decode()` is the JSON, with its keys in alphabetical order."""
    result = dataset_benchmark(endless(), 10, 512, do_memcpy=do_memcpy)

    assert (result.dtype, result.shape) == (tf.string, [1])
    check(result.numpy(), 10, 512)


def test_graph_mode_returns_an_op_for_the_session():
    """As programs of old use it: a Session runs what the function returned."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        operation = dataset_benchmark(endless(), 3, 100)

        assert operation.shape == [1]
        check(session.run(operation), 3, 100)


def test_it_works_inside_a_function():
    """A traced function measures each time that it is called."""
    dataset = endless()
    function = tf.function(lambda: dataset_benchmark(dataset, 2, 10))

    check(function().numpy(), 2, 10)
    check(function().numpy(), 2, 10)


def test_a_queue_is_measured_through_its_dataset():
    """The queue need not be initialised, and is not consumed."""
    queue = SimpleNamespace(_dataset=endless())

    check(infeed_benchmark(queue, 2, 20).numpy(), 2, 20)
    with pytest.raises(TypeError, match="`infeed_queue` argument to be of type"):
        infeed_benchmark(endless(), 2, 20)


@pytest.mark.parametrize("initialized", [True, False])
def test_an_infeed_queue_is_measured_and_not_consumed(initialized):
    """Initialized or not; a program still gets its elements from the first on."""
    counting = tf.data.Dataset.range(10**6)
    queue = IPUInfeedQueue(
        counting.map(lambda n: tf.fill([4, 4], tf.cast(n, tf.float32)))
    )
    if initialized:
        _ = queue.initializer

    check(infeed_benchmark(queue, 3, 100).numpy(), 3, 100)

    if initialized:
        total = tf.function(
            lambda: loops.repeat(3, lambda x, image: x + image[0, 0], [0.0], queue),
            jit_compile=True,
        )
        with tf.device("/device:IPU:0"):
            assert float(total()) == 0 + 1 + 2
        _ = queue.deleter


def test_an_infeed_queue_is_measured_by_an_op_in_a_graph():
    """A Session runs what the function returned, next to a program that uses the queue."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        queue = IPUInfeedQueue(endless())
        operation = infeed_benchmark(queue, 2, 50)
        with scopes.ipu_scope("/device:IPU:0"):
            (total,) = compiler.compile(
                lambda: loops.repeat(
                    5, lambda x, image: x + tf.reduce_sum(image) + 1.0, [0.0], queue
                ),
                [],
            )

        check(session.run(operation), 2, 50)
        session.run(queue.initializer)
        assert session.run(total) == 5.0
        check(session.run(operation), 2, 50)
        session.run(queue.deleter)


def test_counts_are_exact_where_float32_would_not_be():
    """2^24 + 3 bytes are counted to the byte."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([(1 << 24) + 3], tf.uint8)).repeat()

    (epoch,) = json.loads(dataset_benchmark(dataset, 1, 1).numpy()[0])["epochs"]

    assert epoch["total_bytes_processed"] == (1 << 24) + 3


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_short_dataset_is_an_error_with_the_epochs_that_there_were(mode):
    """Where the original hung: OutOfRangeError, and 2 epochs and 5 elements kept."""

    def run():
        if mode == "eager":
            return dataset_benchmark(endless().take(25), 10, 10)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(dataset_benchmark(endless().take(25), 10, 10))

    message = "reached the end of the dataset after 25 of 100"
    with pytest.raises(tf.errors.OutOfRangeError, match=message) as caught:
        run()

    epochs = partial_epochs(caught.value)
    assert [epoch["elements_processed"] for epoch in epochs] == [10, 10, 5]


def test_a_failing_dataset_is_its_own_error_with_the_epochs_that_there_were():
    """The type and the text are the dataset's; the element is named."""
    dataset = tf.data.Dataset.range(100).map(
        lambda x: tf.debugging.check_numerics(1.0 / tf.cast(7 - x, tf.float32), "oops")
    )

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"failed at element 7 .*oops"
    ) as caught:
        dataset_benchmark(dataset, 10, 5)

    epochs = partial_epochs(caught.value)
    assert [epoch["elements_processed"] for epoch in epochs] == [5, 2]


@pytest.mark.parametrize("do_memcpy", [True, False])
def test_an_empty_tensor_is_refused(do_memcpy):
    """A dimension of size 0 has nothing to transfer, and the message is the classic one."""
    dataset = tf.data.Dataset.from_tensors((tf.zeros([2]), tf.zeros([0, 3]))).repeat()

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Detected a tensor in the dataset with a dimension of size 0",
    ):
        dataset_benchmark(dataset, 1, 1, do_memcpy=do_memcpy)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (1, 0),
            ValueError,
            "Expected `elements_per_epochs` to be at least 1, but got 0",
        ),
        (
            (-1, 1),
            ValueError,
            "Expected `number_of_epochs` to be at least 1, but got -1",
        ),
        ((2**40, 1), ValueError, "`number_of_epochs` to be at most"),
        ((1.5, 1), TypeError, "Expected `number_of_epochs` to be an int"),
        ((True, 1), TypeError, "Expected `number_of_epochs` to be an int"),
    ],
)
def test_argument_errors_are_raised(arguments, error, message):
    """Where the original returned the exception object."""
    with pytest.raises(error, match=message):
        dataset_benchmark(endless(), *arguments)


def test_what_is_not_a_dataset_is_refused():
    """The classic message, raised."""
    with pytest.raises(TypeError, match=r"argument to be of type `tf\.data\.Dataset`"):
        dataset_benchmark([1, 2, 3], 1, 1)


@pytest.mark.process
def test_debug_options_are_applied_only_on_request():
    """tf.data's debug mode switches static rewrites off, so assert_next sees it."""
    done = run_python(
        """
import ipufeed, tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from ipufeed.benchmark.dataset_benchmark import dataset_benchmark
tf.data.experimental.enable_debug_mode()
dataset = tf.data.Dataset.range(100).apply(testing.assert_next(["MapAndBatch"]))
dataset = dataset.map(lambda x: x + 1).batch(2)
for apply in (True, False):
    try:
        dataset_benchmark(dataset, 1, 5, apply_debug_options=apply)
        print(apply, "rewritten")
    except tf.errors.InvalidArgumentError:
        print(apply, "as written")
"""
    )

    assert done.stdout.split("\n")[:2] == ["True as written", "False rewritten"], done


@pytest.mark.process
def test_statistics_are_printed_only_on_request():
    """Each epoch's end is always logged, its rates only with print_stats."""
    code = """
import ipufeed, tensorflow as tf
from ipufeed.benchmark.dataset_benchmark import dataset_benchmark
dataset = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat()
dataset_benchmark(dataset, 2, 5, print_stats={stats})
"""
    outputs = {
        stats: run_python(code.format(stats=stats), log_level="0").stderr
        for stats in (True, False)
    }

    for stats, text in outputs.items():
        assert text.count("Dataset iterator completed epoch") == 2
        assert text.count("elements/second.") == (2 if stats else 0)
        assert text.count("GB/s.") == (2 if stats else 0)
