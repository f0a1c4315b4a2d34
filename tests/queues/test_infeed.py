"""What an infeed queue promises: each element once, in order, over all runs; or why not."""

import numpy as np
import pytest
import tensorflow as tf
from infeed_programs import floats, numbers, reading

from ipufeed import no_effect
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])
def test_runs_go_on_where_the_last_one_stopped(jit):
    """Nothing is lost or repeated between programs that share a queue."""
    infeed, outfeed = IPUInfeedQueue(floats), IPUOutfeedQueue()
    _ = infeed.initializer
    run = reading(infeed, outfeed, jit)
    for n in (3, 0, 1, 40, 6):
        run(n)
    np.testing.assert_array_equal(outfeed.dequeue(), np.arange(50, dtype=np.float32))


def test_a_new_seed_leaves_the_dataset_where_it_is():
    """tf.random.set_seed() destroys all eager kernels, that of the initializer as well."""
    infeed, outfeed = IPUInfeedQueue(floats), IPUOutfeedQueue()
    _ = infeed.initializer
    run = reading(infeed, outfeed)
    run(3)
    tf.random.set_seed(1)
    run(2)

    assert outfeed.dequeue().numpy().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])
def test_the_end_of_the_dataset_is_an_error_only_for_a_program_that_wants_more(jit):
    """All elements are delivered, and each later dequeue says the same at once."""
    infeed, outfeed = IPUInfeedQueue(floats.take(5)), IPUOutfeedQueue()
    _ = infeed.initializer
    run = reading(infeed, outfeed, jit)
    run(5)
    for _ in range(3):
        with pytest.raises(
            tf.errors.OutOfRangeError, match="Are you trying to dequeue"
        ):
            run(1)
    assert len(outfeed.dequeue()) == 5


def test_an_empty_dataset_ends_at_once():
    """The first dequeue says so."""
    infeed, outfeed = IPUInfeedQueue(floats.take(0)), IPUOutfeedQueue()
    _ = infeed.initializer
    with pytest.raises(tf.errors.OutOfRangeError, match="all of its 0 elements"):
        reading(infeed, outfeed)(1)


def test_an_error_of_the_dataset_keeps_type_text_and_number():
    """What came before is delivered first; the device is usable afterwards."""

    def generate():
        yield from (0.0, 1.0, 2.0)
        raise ValueError("no more light")

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.float32)
    )
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer
    run = reading(infeed, outfeed)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(10)
    for words in ("no more light", "element 3 (from 0)", "infeed dataset iterator"):
        assert words in str(caught.value)
    assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0, 2.0]
    other = IPUInfeedQueue(floats)
    _ = other.initializer
    reading(other, outfeed)(2)
    assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0]


def test_reading_the_initializer_again_restarts_the_dataset():
    """In eager mode each read acts; so does deleting and initialising."""
    infeed, outfeed = IPUInfeedQueue(floats), IPUOutfeedQueue()
    run = reading(infeed, outfeed)
    for restart in (False, True, False):
        _ = infeed.initializer
        run(3)
        assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0, 2.0]
        if restart:
            _ = infeed.deleter


def test_a_program_without_the_initializer_is_refused_with_the_reason():
    """And so it does after the deleter."""
    infeed, outfeed = IPUInfeedQueue(floats), IPUOutfeedQueue()
    run = reading(infeed, outfeed)
    with pytest.raises(tf.errors.FailedPreconditionError, match="Did you initialize"):
        run(1)
    with pytest.raises(tf.errors.NotFoundError, match="have run the initializer"):
        _ = infeed.deleter
    _ = infeed.initializer
    run(1)
    _ = infeed.deleter
    with pytest.raises(tf.errors.FailedPreconditionError, match="Did you initialize"):
        run(1)


def test_a_graph_has_the_initializer_once():
    """And the ops do what the properties do in eager mode."""
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(numbers())
        initializer = infeed.initializer
        with pytest.raises(ValueError, match="only be accessed once: keep"):
            _ = infeed.initializer
        deleter = infeed.deleter
        with v1.Session() as session:
            with pytest.raises(tf.errors.NotFoundError, match="have run the init"):
                session.run(deleter)
            session.run(initializer)
            with pytest.raises(tf.errors.AlreadyExistsError, match="already exists"):
                session.run(initializer)
            session.run(deleter)
            session.run(initializer)


def test_a_new_session_finds_the_queue_free():
    """The session that is closed takes its feeds with it."""
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(numbers().repeat())
        initializer = infeed.initializer
        for _ in range(3):
            with v1.Session() as session:
                session.run(initializer)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (floats.batch(3), "drop_remainder=True"),
        (tf.data.Dataset.from_tensors("text"), "string"),
        (tf.data.Dataset.from_tensors(tf.ragged.constant([[1], [2, 3]])), "Ragged"),
        (
            tf.data.Dataset.from_tensors(tf.sparse.from_dense([0.0, 1.0])),
            "SparseTensorSpec",
        ),
        (floats.window(3), "DatasetSpec"),
    ],
    ids=["unknown size", "text", "ragged", "sparse", "dataset"],
)
def test_what_a_feed_cannot_carry_is_refused_when_the_queue_is_made(dataset, words):
    """With what it is and the remedy."""
    with pytest.raises(ValueError, match=words):
        IPUInfeedQueue(dataset)


@pytest.mark.parametrize("dtype", ["int64", "float64", "uint16", "bfloat16"])
def test_a_dtype_that_feeds_do_not_carry_is_refused_by_the_initializer(dtype):
    """As in the original: when the op runs, with the names of those that they carry."""
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.cast(1, dtype)))
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        _ = infeed.initializer
    for words in (
        f"Unsupported datatype {dtype} on index 0",
        "tf.DataSet.map()",
        "int8",
    ):
        assert words.replace("float64", "double") in str(caught.value).replace(
            "float64", "double"
        )


@pytest.mark.parametrize(
    "dtype", ["int32", "float32", "float16", "bool", "int8", "uint8"]
)
@pytest.mark.parametrize("shape", [[], [1], [2, 3], [1, 1, 2, 1, 1, 1, 1, 3]])
def test_every_dtype_and_shape_arrives_bit_for_bit(dtype, shape):
    """Compiled, in both directions."""
    bits = np.random.default_rng(0).integers(0, 2, [4, *shape]).astype(dtype)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(bits))
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    reading(infeed, outfeed)(4)
    np.testing.assert_array_equal(outfeed.dequeue(), bits)


def test_nan_and_infinity_cross_untouched():
    """The very bits: a NaN's payload too."""
    bits = np.array([0x7FC00001, 0xFF800000, 0x7F800000, 0x80000000], np.uint32)
    values = bits.view(np.float32)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(values))
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    reading(infeed, outfeed)(4)
    np.testing.assert_array_equal(outfeed.dequeue().numpy().view(np.uint32), bits)


def test_a_dimension_of_size_0_is_refused():
    """When the initializer runs."""
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.zeros([3, 0])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="dimension of size 0"):
        _ = infeed.initializer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prefetch_depth": -1}, "must be greater than zero, but it is -1"),
        ({"prefetch_depth": 256}, "must be less than 256, but it is 256"),
        ({"prefetch_depth": 1.5}, "must be an integer"),
        ({"prefetch_depth": True}, "must be an integer"),
        ({"prefetch_depth": False}, "must be an integer"),
        ({"device_ordinal": "0"}, "Device ordinal must be an integer"),
        ({"device_ordinal": -1}, "Device ordinal must be >= 0, got -1"),
        ({"device_ordinal": 16}, "There is no /device:IPU:16"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, words):
    """With the words of the original where it has any."""
    with pytest.raises(ValueError, match=words):
        IPUInfeedQueue(floats, **arguments)


@pytest.mark.parametrize("value", [None, 3, [1], "dataset"])
def test_what_is_not_a_dataset_is_refused(value):
    """By its type."""
    with pytest.raises(TypeError, match=r"of type `tf.data.Dataset`, but got"):
        IPUInfeedQueue(value)


def test_arguments_of_older_releases_are_accepted_with_a_warning(caplog):
    """Those without a meaning any more."""
    no_effect.forget()
    IPUInfeedQueue(floats, feed_name="mine", replication_factor=1)
    for name in ("feed_name", "replication_factor"):
        assert f"`IPUInfeedQueue({name}=)` has no effect" in caplog.text
    with pytest.raises(TypeError, match="unexpected keyword argument 'feed_names'"):
        IPUInfeedQueue(floats, feed_names="mine")


def test_the_name_of_a_feed_may_be_given_by_position(caplog):
    """Older releases require it there, in front of the device and the depth."""
    no_effect.forget()
    infeed = IPUInfeedQueue(floats, "infeed", 0, 1, 1, 7)
    outfeed = IPUOutfeedQueue("outfeed", IPUOutfeedMode.LAST)
    _ = infeed.initializer
    reading(infeed, outfeed)(3)

    assert IPUOutfeedQueue("all", outfeed_all=True)._outfeed_mode == IPUOutfeedMode.ALL
    last = IPUOutfeedQueue(feed_name="last", outfeed_all=False)
    assert last._outfeed_mode == IPUOutfeedMode.LAST
    assert infeed._prefetch_depth == 7
    assert outfeed.dequeue().numpy() == 2
    for name in ("feed_name", "replication_factor", "data_to_prefetch"):
        assert f"`IPUInfeedQueue({name}=)` has no effect" in caplog.text
    with pytest.raises(TypeError, match="multiple values for argument 'feed_name'"):
        IPUInfeedQueue(floats, "infeed", feed_name="other")
    with pytest.raises(TypeError, match="at most 2 arguments by position with a `feed"):
        IPUOutfeedQueue("outfeed", IPUOutfeedMode.LAST, 0)
