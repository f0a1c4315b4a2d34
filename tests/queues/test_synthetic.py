"""Synthetic data: programs whose feeds transfer nothing, or constants.

TF_POPLAR_FLAGS --> placement --> an infeed without its dataset, an outfeed without results

Each promise about programs holds in both styles and both modes: tests/support/styles.py.
"""

import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, live_feeders

from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

SHAPE = [50, 40]


def never():
    """A dataset that fails as soon as it is read."""
    zeros = tf.data.Dataset.from_tensors(tf.zeros(SHAPE))
    return zeros.map(lambda x: x + tf.strings.to_number("no number"))


def elements(dtype):
    return tf.data.Dataset.from_tensors(tf.cast(tf.zeros(SHAPE), dtype)).repeat()


@pytest.mark.parametrize("initialize", [True, False], ids=["initialised", "not"])
def test_a_synthetic_infeed_never_touches_its_dataset(flags, style, initialize):
    """The initializer may run or not: no iterator, no thread, zeros without end."""
    flags("--synthetic_data_categories=infeed")
    before = live_feeders()
    infeed = style.feed(never) if initialize else IPUInfeedQueue(never())
    outfeed = IPUOutfeedQueue()

    style.run(lambda: style.repeat(50, outfeed.enqueue, infeed_queue=infeed))
    results = style.read(outfeed.dequeue())

    assert results.shape == (50, *SHAPE)
    assert not results.any()
    assert live_feeders() <= before


def test_a_synthetic_infeed_can_be_deleted_and_initialized_again(flags):
    """Both do nothing, as there is nothing."""
    flags("--use_synthetic_data")
    infeed = IPUInfeedQueue(never())

    for _ in range(2):
        assert infeed.initializer is None
        assert infeed.deleter is None


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int32", "int8", "uint8", "bool"]
)
@pytest.mark.parametrize(
    "initializer", ["", "7", "-3.9", "uniform", "normal", "random"]
)
def test_the_initializer_makes_the_values(flags, dtype, initializer):
    """A number's integer part; the type's whole range; N(0, 1), or 1 in integers."""
    flags(f"--use_synthetic_data --synthetic_data_initializer={initializer}")
    infeed = IPUInfeedQueue(elements(dtype))

    @tf.function(jit_compile=True)
    def program():
        return infeed._dequeue()

    with tf.device("/device:IPU:0"):
        values = program().numpy()

    assert values.dtype == dtype
    assert values.shape == tuple(SHAPE)
    check = {"uniform": is_uniform, "random": is_uniform, "normal": is_normal}
    if initializer in check:
        assert check[initializer](values)
    else:
        number = int(float(initializer or 0))
        assert (values == np.array(number).astype(dtype)).all()


def is_uniform(values):
    """Whether 2000 values fill their type's range, evenly and finitely."""
    if values.dtype == bool:
        return 0.4 < values.mean() < 0.6
    info = (np.finfo if values.dtype.kind == "f" else np.iinfo)(values.dtype)
    low, high = float(info.min), float(info.max)
    shares = (values.astype(np.float64) - low) / (high - low)
    quarters = np.histogram(shares, bins=4, range=(0, 1))[0] / shares.size
    return np.isfinite(shares).all() and (abs(quarters - 0.25) < 0.05).all()


def is_normal(values):
    """Whether they are of N(0, 1), or all 1 where the type has no fractions."""
    if values.dtype.kind != "f":
        return (values == 1).all()
    values = values.astype(np.float64)
    return abs(values.mean()) < 0.1 and abs(values.std() - 1.0) < 0.1


@pytest.mark.parametrize(
    "category", ["use_synthetic_data", "synthetic_data_categories"]
)
def test_a_synthetic_outfeed_gives_empty_results(flags, style, category):
    """In the structure enqueued, with shapes and dtypes, and no element."""
    flags(f"--{category}" + ("=outfeed" if "categories" in category else ""))
    infeed, outfeed = style.feed(lambda: elements("float32")), IPUOutfeedQueue()

    def body(x):
        return outfeed.enqueue({"sum": tf.reduce_sum(x), "x": tf.cast(x, tf.int32)})

    style.run(lambda: style.repeat(5, body, infeed_queue=infeed))
    results = style.read(outfeed.dequeue())

    assert results["sum"].shape == (0,)
    assert results["sum"].dtype == np.float32
    assert results["x"].shape == (0, *SHAPE)
    assert results["x"].dtype == np.int32


def test_a_synthetic_outfeed_has_no_last_value(flags, style):
    """The program warns when it is built; the dequeue fails when it runs, not before."""
    flags("--use_synthetic_data")
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)

    with pytest.warns(
        RuntimeWarning, match="the data are synthetic: there is no last value"
    ):
        style.run(lambda: style.repeat(3, lambda: outfeed.enqueue(1.0)))
    if not tf.executing_eagerly():
        value = outfeed.dequeue()
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match="the last value from an outfeed queue when using synthethic data",
    ):
        style.read(outfeed.dequeue() if tf.executing_eagerly() else value)


def test_iterating_over_a_synthetic_outfeed_ends_at_once(flags):
    """Nothing will come, so no caller waits for it."""
    flags("--synthetic_data_categories=outfeed")
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program():
        outfeed.enqueue(tf.constant(1.0))

    with tf.device("/device:IPU:0"):
        program()

    assert list(outfeed) == []
    assert list(outfeed.stream(timeout_s=DEADLOCK_S)) == []


@pytest.mark.parametrize("category", ["seed", "hostembedding", "parameters"])
def test_other_categories_leave_the_feeds_alone(flags, style, category):
    """They are of other things than feeds."""
    flags(f"--synthetic_data_categories={category}")
    infeed, outfeed = style.feed(lambda: elements("float32")), IPUOutfeedQueue()

    style.run(
        lambda: style.repeat(3, lambda x: outfeed.enqueue(x + 5.0), infeed_queue=infeed)
    )

    assert style.read(outfeed.dequeue()).mean() == 5.0


def test_the_null_data_feed_gives_constants(flags, style):
    """Every byte is 0x02, in each dtype, without end, and the dataset is not read."""
    flags("--null_data_feed")
    dtypes = ["float32", "float16", "int32", "int8", "uint8"]
    infeed = style.feed(
        lambda: never().map(lambda x: tuple(tf.cast(x, dtype) for dtype in dtypes))
    )
    outfeed = IPUOutfeedQueue()

    style.run(
        lambda: style.repeat(40, lambda *x: outfeed.enqueue(x), infeed_queue=infeed)
    )
    results = style.read(outfeed.dequeue())

    for tensor, dtype in zip(results, dtypes, strict=True):
        assert tensor.shape == (40, *SHAPE)
        assert tensor.dtype == dtype
        assert set(tensor.tobytes()) == {0x02}


def test_the_null_data_feed_still_wants_its_initializer(flags, style):
    """It is a feed like any other, but for what it carries."""
    flags("--null_data_feed")
    infeed, outfeed = IPUInfeedQueue(elements("float32")), IPUOutfeedQueue()

    with pytest.raises(tf.errors.FailedPreconditionError, match="Did you initialize"):
        style.run(lambda: style.repeat(1, outfeed.enqueue, infeed_queue=infeed))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_datasets_own_work_runs_on_the_given_number_of_threads(flags, threads):
    """--max_infeed_threads: the most calls of the dataset that run at a time."""
    flags(f"--max_infeed_threads={threads}")
    lock, together = threading.Condition(), []
    most = []

    def call(n):
        with lock:
            together.append(n)
            most.append(len(together))
            lock.notify_all()
            # Until as many as can have come; the next ones meet no other and go on.
            lock.wait_for(lambda: max(most) >= threads, timeout=DEADLOCK_S)
            together.remove(n)
        return n

    dataset = tf.data.Dataset.range(12).map(
        lambda n: tf.ensure_shape(
            tf.cast(tf.numpy_function(call, [n], tf.int64), tf.int32), []
        ),
        num_parallel_calls=12,
    )
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        for _ in tf.range(12):
            outfeed.enqueue(infeed._dequeue())

    with tf.device("/device:IPU:0"):
        program()

    assert outfeed.dequeue().numpy().tolist() == list(range(12))
    assert max(most) == threads
