"""Faults of the data: what a dataset does wrong, the program says; what came before, came.

dataset --(end, error, wrong bytes)--> infeed --> program --> outfeed
"""

import re

import numpy as np
import pytest
import tensorflow as tf
from feeding import feeding, numbers

from ipufeed.queues import IPUInfeedQueue


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])
def test_a_dataset_that_ends_in_a_loop_loses_nothing(jit):
    """Rows 1 and 3: all elements are delivered; each later read has the same error."""
    with feeding(numbers(7), jit) as feeds:
        with pytest.raises(tf.errors.OutOfRangeError, match="all of its 7 elements"):
            feeds.run(10)
        assert feeds.results() == list(range(7))
        for _ in range(3):
            with pytest.raises(
                tf.errors.OutOfRangeError, match="all of its 7 elements"
            ):
                feeds.run(1)


def test_an_empty_dataset_ends_the_first_read():
    """Row 2."""
    with (
        feeding(numbers(0)) as feeds,
        pytest.raises(tf.errors.OutOfRangeError, match="all of its 0 elements"),
    ):
        feeds.run(1)


def failing_at(k, error):
    def generate():
        for i in range(10):
            if i == k:
                raise error
            yield np.float32(i)

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.float32)
    )


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])
def test_an_exception_of_the_producer_keeps_its_name_and_traceback(jit):
    """Row 4: elements before it are delivered, and its text is in the program's error."""
    with feeding(failing_at(3, KeyError("no such record")), jit) as feeds:
        with pytest.raises(tf.errors.OpError) as caught:
            feeds.run(10)
        assert feeds.results() == [0, 1, 2]
    text = str(caught.value)
    assert "KeyError: 'no such record'" in text
    assert "in generate" in text, "the traceback of the user's generator"
    assert "element 3" in text


def test_a_stop_iteration_inside_a_generator_is_an_error():
    """Row 5: not a clean end of the dataset."""
    with feeding(failing_at(3, StopIteration("oops"))) as feeds:
        with pytest.raises(tf.errors.OpError, match="generator raised StopIteration"):
            feeds.run(10)
        assert feeds.results() == [0, 1, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_producer_that_wants_to_stop_the_process_ends_the_program(error):
    """Row 6: the program ends, and its error names what the producer has raised."""
    with feeding(failing_at(3, error("enough"))) as feeds:
        with pytest.raises((tf.errors.OpError, error), match=error.__name__):
            feeds.run(10)
        assert feeds.results() == [0, 1, 2]


def test_of_two_failures_the_first_is_reported():
    """Row 9: which queue, and its error; the other one is there on request."""
    first, second = (
        IPUInfeedQueue(failing_at(k, ValueError(f"failure at {k}"))) for k in (2, 1)
    )
    _ = first.initializer, second.initializer

    @tf.function(jit_compile=True)
    def program(n):
        from ipufeed.device.program import loops

        def body(total, x):
            return total + x + second._dequeue()

        return loops.repeat(n, body, [0.0], first)

    with tf.device("/device:IPU:0"):
        with pytest.raises(tf.errors.OpError, match=r"element 1 .*failure at 1"):
            program(tf.constant(5))
        with pytest.raises(tf.errors.OpError, match="failure at"):
            program(tf.constant(5))
    _ = first.deleter, second.deleter


def mismatched(value):
    """A dataset that promises a float32 of shape [2], and gives something else."""

    def generate():
        yield np.zeros(2, np.float32)
        yield value

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([2], tf.float32)
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3, np.float32), "(3,)"),
        (np.zeros((2, 1), np.float32), "(2, 1)"),
        ((np.zeros(2), np.zeros(2)), "shape"),
        ("text", "text"),
    ],
    ids=["shape", "rank", "structure", "dtype"],
)
def test_an_element_that_is_not_as_promised_is_an_error(value, words):
    """Rows 31 to 33: the element's number and what it is; those before are delivered."""
    with feeding(mismatched(value)) as feeds:
        with pytest.raises(tf.errors.OpError, match="element 1") as caught:
            feeds.run(2)
        assert words in str(caught.value)
        assert feeds.results() == [[0, 0]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tf.data.Dataset.from_tensors(["a"]), "of type string"),
        (lambda: tf.data.Dataset.range(3).batch(2), "drop_remainder"),
        (lambda: tf.data.Dataset.from_tensors(tf.sparse.eye(3)), "SparseTensorSpec"),
        (
            lambda: tf.data.Dataset.from_tensors(tf.ragged.constant([[1], [1, 2]])),
            "RaggedTensorSpec",
        ),
        (lambda: tf.data.Dataset.range(9).window(3), "DatasetSpec"),
    ],
    ids=["string", "batch remainder", "sparse", "ragged", "dataset"],
)
def test_what_no_feed_carries_is_refused_at_the_queue(make, words):
    """Rows 33 and 35: before anything runs, with what to do about it."""
    with pytest.raises(Exception, match=words):
        IPUInfeedQueue(make())


@pytest.mark.parametrize("dtype", [tf.float64, tf.int64, tf.uint16, tf.complex64])
def test_no_dtype_is_silently_cast(dtype):
    """Row 32: the error names the dtype and those that are carried."""
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.zeros([2], dtype)))
    with pytest.raises(tf.errors.FailedPreconditionError, match="map"):
        _ = queue.initializer


BIG_ENDIAN = np.arange(6, dtype=">f4").reshape(2, 3)
READ_ONLY = np.arange(6, dtype=np.float32).reshape(2, 3)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "array",
    [
        np.float32(5),
        np.zeros([1] * 8, np.float32),
        np.arange(12, dtype=np.float32).reshape(3, 4).T[::2],
        BIG_ENDIAN,
        READ_ONLY,
        np.array([np.nan, -np.nan, np.inf, -0.0], np.float32),
        np.array([-128, 127], np.int8),
    ],
    ids=["scalar", "rank 8", "strides", "big-endian", "read-only", "NaN", "int8"],
)
def test_odd_arrays_arrive_as_they_are(array):
    """Rows 34 and 36: bit for bit."""

    def generate():
        yield array

    spec = tf.TensorSpec(np.shape(array), np.asarray(array).dtype.newbyteorder("="))
    dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
    with feeding(dataset) as feeds:
        feeds.run(1)
        found = feeds.outfeed.dequeue().numpy()[0]
    expected = np.ascontiguousarray(array, dtype=found.dtype)
    assert found.tobytes() == expected.tobytes()
    assert found.shape == np.shape(array)


@pytest.mark.parametrize("depth", [1, 2, 3, 255])
def test_every_depth_works(depth):
    """Row 39: down to one element, on both sides; tests/queues has what is refused."""
    dataset = numbers(1000)
    infeed = IPUInfeedQueue(dataset, prefetch_depth=depth)
    with feeding(dataset, buffer_depth=depth) as feeds:
        feeds.infeed = infeed
        _ = infeed.initializer
        feeds.run(1000)
        assert feeds.results() == list(range(1000))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda data: data[:14] + bytes([data[14] ^ 1]) + data[15:],
            "corrupted record",
        ),
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "corrupted record"),
        (lambda data: data[:-3], "truncated record"),
    ],
    ids=["data", "length", "cut"],
)
def test_a_damaged_file_is_a_data_loss_with_its_place(tmp_path, damage, words):
    """Row 41: as far as TensorFlow's reader sees it; the records before are delivered."""
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for value in range(3):
            writer.write(np.float32(value).tobytes())
    records = path.read_bytes()
    size = len(records) // 3
    path.write_bytes(records[: 2 * size] + damage(records[2 * size :]))
    dataset = tf.data.TFRecordDataset(str(path)).map(
        lambda record: tf.reshape(tf.io.decode_raw(record, tf.float32), [])
    )
    dataset = dataset.map(lambda x: tf.ensure_shape(x, []))

    with feeding(dataset) as feeds:
        with pytest.raises(tf.errors.DataLossError, match=words) as caught:
            feeds.run(3)
        assert feeds.results() == [0, 1]
    offset = int(re.search(r"at (\d+)", str(caught.value)).group(1))
    assert 2 * size <= offset < 3 * size
