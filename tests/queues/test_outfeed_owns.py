"""What an outfeed stores is what a dequeue gives, whatever has been traced or run since."""

import contextlib
import ctypes
import gc
import threading

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import _native
from ipufeed.device.program import loops
from ipufeed.queues import IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.queues.enqueued import read_stored

v1 = tf.compat.v1
LARGE = 1 << 20
REFUSED = (tf.errors.FailedPreconditionError, "already exists but with a different")


def program_of(outfeed, what):
    """A program that enqueues `what` of 0 to n - 1."""

    @tf.function(jit_compile=True)
    def program(n):
        loops.repeat(n, lambda i: (i + 1.0, outfeed.enqueue(what(i))), [0.0])

    def run(n):
        with tf.device("/device:IPU:0"):
            program(tf.constant(n))

    return run


def refused(run):
    error, words = REFUSED
    with pytest.raises(error, match=words):
        run(1)


OTHERS = {
    "smaller": lambda i: tf.fill([4], i),
    "larger": lambda i: tf.fill([2 * LARGE], i),
    "another rank": lambda i: tf.fill([LARGE, 1], i),
    "a dtype of the same size": lambda i: tf.fill([LARGE], tf.cast(i, tf.int32)),
    "a smaller dtype": lambda i: tf.fill([LARGE], tf.cast(i, tf.float16)),
    "more tensors": lambda i: (tf.fill([LARGE], i), i),
    "a dict": lambda i: {"a": tf.fill([LARGE], i), "b": i},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("way", ["dequeue", "iteration", "stream"])
def test_a_program_of_other_results_leaves_what_is_stored(way, other):
    """It is refused, and a dequeue gives the results of the first, whole."""
    outfeed = IPUOutfeedQueue()
    program_of(outfeed, lambda i: tf.fill([LARGE], i))(2)
    refused(program_of(outfeed, other))
    take = {
        "dequeue": lambda: list(outfeed.dequeue()),
        "iteration": lambda: list(outfeed),
        "stream": lambda: list(outfeed.stream()),
    }[way]

    results = take()

    assert [result.shape for result in results] == [(LARGE,), (LARGE,)]
    assert [result.dtype for result in results] == [tf.float32, tf.float32]
    assert [np.unique(result).tolist() for result in results] == [[0.0], [1.0]]


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_last_result_is_left_as_well(other):
    """In the mode LAST, with the structure of the program that made it."""
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    program_of(outfeed, lambda i: {"loss": tf.fill([LARGE], i)})(3)
    refused(program_of(outfeed, other))

    result = outfeed.dequeue()

    assert list(result) == ["loss"]
    assert result["loss"].shape == (LARGE,)
    assert np.unique(result["loss"]).tolist() == [2.0]


def test_small_results_of_a_stream_keep_their_dtype():
    """The fast way of small results copies bytes: an int32 is not a float32."""
    outfeed = IPUOutfeedQueue()
    run = program_of(outfeed, lambda i: i)
    run(1)
    refused(program_of(outfeed, lambda i: tf.cast(i, tf.int32)))
    stream = outfeed.stream()
    assert next(stream).dtype == tf.float32
    run(2)

    rest = list(stream)

    assert [(float(each), each.dtype) for each in rest] == [
        (0.0, tf.float32),
        (1.0, tf.float32),
    ]


def test_a_trace_that_fails_changes_nothing():
    """Nor does one whose program never runs."""
    outfeed = IPUOutfeedQueue()
    program_of(outfeed, lambda i: {"loss": i})(3)

    @tf.function
    def failing():
        outfeed.enqueue((tf.zeros([7]), tf.zeros([], tf.int32)))
        raise RuntimeError("not this one")

    with pytest.raises(RuntimeError, match="not this one"):
        failing()
    with tf.Graph().as_default():
        outfeed.enqueue([tf.zeros([8], tf.int32)])

    assert outfeed.dequeue()["loss"].numpy().tolist() == [0, 1, 2]
    assert list(outfeed.dequeue()) == ["loss"]


def test_the_same_tensors_in_another_structure_are_refused_by_name():
    """When they are traced; after the deleter they are not."""
    outfeed = IPUOutfeedQueue()
    program_of(outfeed, lambda i: {"loss": i, "step": i})(2)

    with pytest.raises(
        ValueError,
        match=rf"'{outfeed._id}' was given {{loss: float32\(\), step: float32\(\)}} before"
        r".*gets \(float32\(\), float32\(\)\).*Use another queue, or .*`deleter`",
    ):
        program_of(outfeed, lambda i: (i, i))(1)
    assert outfeed.dequeue()["step"].numpy().tolist() == [0, 1]
    _ = outfeed.deleter
    program_of(outfeed, lambda i: (i, i + 1))(1)

    assert [each.numpy().tolist() for each in outfeed.dequeue()] == [[0], [1]]


def test_the_deleter_makes_room_for_other_results():
    """And forgets rows that an iteration has left."""
    outfeed = IPUOutfeedQueue()
    program_of(outfeed, lambda i: i)(5)
    assert float(next(iter(outfeed))) == 0.0
    _ = outfeed.deleter
    program_of(outfeed, lambda i: tf.fill([3], tf.cast(i, tf.int32)))(1)

    results = outfeed.dequeue()

    assert (results.dtype, results.numpy().tolist()) == (tf.int32, [[0, 0, 0]])


def test_rows_that_are_left_go_with_the_queue():
    """If the native queue alone is deleted: an iteration has left them there."""
    outfeed = IPUOutfeedQueue()
    program_of(outfeed, lambda i: i)(3)
    assert float(next(iter(outfeed))) == 0.0
    assert _native.entry().ipufeed_outfeed_delete(outfeed._number) == 0
    program_of(outfeed, lambda i: tf.fill([2], tf.cast(i, tf.int32)))(1)

    assert outfeed.dequeue().numpy().tolist() == [[0, 0]]


def test_rows_that_are_left_come_first():
    """Of a dequeue, of the next iteration and of a stream: no result is lost."""
    outfeed = IPUOutfeedQueue()
    run = program_of(outfeed, lambda i: {"a": i, "b": tf.fill([LARGE], i)})
    run(5)
    rows = iter(outfeed)
    assert float(next(rows)["a"]) == 0.0
    assert outfeed.stats().stored_bytes == 4 * (4 + 4 * LARGE)
    assert float(next(iter(outfeed))["a"]) == 1.0
    assert float(next(outfeed.stream())["a"]) == 2.0

    rest = outfeed.dequeue()

    assert rest["a"].numpy().tolist() == [3.0, 4.0]
    assert rest["b"].numpy()[:, LARGE - 1].tolist() == [3.0, 4.0]


def test_four_threads_dequeue_and_delete_one_queue():
    """Each gets whole results in their structure, or none, whatever the others do."""
    outfeed = IPUOutfeedQueue()
    runs = [
        program_of(outfeed, lambda i: {"x": i, "y": tf.fill([3], i)}),
        program_of(outfeed, lambda i: (tf.cast(i, tf.int32),)),
    ]
    for run in runs:
        run(1)
        _ = outfeed.deleter
    over = threading.Event()
    wrong = []

    def look(found):
        if isinstance(found, dict):
            assert found["x"].dtype == tf.float32
            assert found["y"].shape[1:] == (3,)
        else:
            assert found[0].dtype == tf.int32
            assert found[0].shape.rank == 1

    def read():
        while not over.is_set():
            try:
                look(outfeed.dequeue())
                with contextlib.suppress(tf.errors.FailedPreconditionError):
                    _ = outfeed.deleter  # a program may use it
            except Exception as error:  # the test's thread raises it
                wrong.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for n in range(60):
            # The results of the other one may be there still.
            with contextlib.suppress(tf.errors.FailedPreconditionError):
                runs[n % 2](3)
    finally:
        over.set()
        for thread in threads:
            thread.join()

    assert not wrong, wrong


def test_a_graphs_dequeue_of_other_results_is_refused_and_loses_nothing():
    """Built for an enqueue that was traced later; the error says what is stored."""
    outfeed = IPUOutfeedQueue()
    with tf.Graph().as_default():
        enqueued = outfeed.enqueue(tf.constant([1.0, 2.0]))
        right = outfeed.dequeue()
        with tf.Graph().as_default() as other:
            outfeed.enqueue(tf.constant([1, 2]))
            wrong = outfeed.dequeue()
        with v1.Session() as session:
            session.run(enqueued)
            with (
                v1.Session(graph=other) as another,
                pytest.raises(
                    tf.errors.InvalidArgumentError,
                    match=rf"'{outfeed._id}' are float \[2\], and this dequeue is for "
                    r"int32 \[2\]\. Dequeue them with .*`deleter`",
                ),
            ):
                another.run(wrong)

            assert session.run(right).tolist() == [[1.0, 2.0]]


def raw(outfeed, dtypes, shapes, op="dequeue"):
    """What the op gives that has these attributes."""
    name = f"ipufeed_outfeed_{op}"
    with tf.device("/device:CPU:0"):
        return getattr(_native.load(), name)(
            number=outfeed._number, dtypes=dtypes, shapes=shapes
        )


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
@pytest.mark.parametrize(
    ("dtypes", "shapes"),
    [
        ([tf.float32], [[2]]),
        ([tf.float32], [[LARGE]]),
        ([tf.int32], [[3]]),
        ([tf.float32] * 2, [[3]] * 2),
        ([tf.float32] * 9, [[3]] * 9),
        ([tf.string], [[3]]),
        ([tf.float32], [[3], [3]]),
    ],
)
def test_an_op_with_other_attributes_gets_an_error_and_the_results_stay(
    mode, dtypes, shapes
):
    """Called by hand, with fewer or more outputs than there are columns."""
    outfeed = IPUOutfeedQueue(mode)
    program_of(outfeed, lambda i: tf.fill([3], i))(2)
    op = "dequeue" if mode is IPUOutfeedMode.ALL else "last"

    with pytest.raises(tf.errors.InvalidArgumentError):
        raw(outfeed, dtypes, shapes, op)

    (right,) = raw(outfeed, [tf.float32], [[3]], op)
    expected = [[0.0] * 3, [1.0] * 3] if mode is IPUOutfeedMode.ALL else [1.0] * 3
    assert right.numpy().tolist() == expected


def test_no_memory_for_a_dequeue_loses_no_result(fault):
    """The results are stored until they have been given."""
    outfeed = IPUOutfeedQueue()
    run = program_of(outfeed, lambda i: tf.fill([LARGE], i))
    run(3)
    with (
        fault("the results of outfeed queue"),
        pytest.raises(
            tf.errors.ResourceExhaustedError,
            match=rf"no memory for the results of outfeed queue '{outfeed._id}'",
        ),
    ):
        outfeed.dequeue()
    run(1)

    results = outfeed.dequeue()

    assert results.numpy()[:, 0].tolist() == [0.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize("count", [1, 3, 50_000])
def test_small_results_are_handed_out_where_they_were_written(fault, count):
    """A dequeue of them allocates nothing, and what follows goes somewhere else."""
    outfeed = IPUOutfeedQueue()
    run = program_of(outfeed, lambda i: (i, tf.fill([7], tf.cast(i % 100.0, tf.int8))))
    run(count)
    with fault("the results of outfeed queue"):
        first = outfeed.dequeue()
    run(count)
    second = outfeed.dequeue()
    del outfeed
    gc.collect()

    for one, seven in (first, second):
        assert one.numpy().tolist() == list(range(count))
        assert seven.shape == (count, 7)
        assert (np.arange(count) % 100 == seven.numpy().T).all()
        # As TensorFlow's kernels want it.
        assert float(tf.reduce_sum(one)) == pytest.approx(count * (count - 1) / 2)


def test_a_result_without_memory_for_a_store_is_kept_as_it_is(fault):
    """The store grows without a buffer, and gives all in order."""
    outfeed = IPUOutfeedQueue(buffer_depth=1)
    run = program_of(outfeed, lambda i: tf.fill([3000], i))
    with fault("a store of results", nth=2):
        run(10)
        text = ctypes.create_string_buffer(1 << 14)
        _native.entry().ipufeed_fault_counts(text, len(text))
    assert int(text.value.decode().split("a store of results\t")[1].split()[0]) >= 2

    assert outfeed.dequeue().numpy()[:, 7].tolist() == list(range(10))


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_store_that_cannot_grow_fails_the_program_and_loses_nothing(fault, nth):
    """What was enqueued before the failure comes, once and in order."""
    outfeed = IPUOutfeedQueue(buffer_depth=2)
    run = program_of(outfeed, lambda i: tf.fill([20000], i))
    with (
        fault("the growth of a store of results", nth=nth),
        pytest.raises(tf.errors.ResourceExhaustedError, match="no memory for a result"),
    ):
        run(20)

    values = outfeed.dequeue().numpy()[:, 7].tolist()
    run(3)

    assert values == list(range(len(values)))
    assert len(values) >= 2
    assert outfeed.dequeue().numpy()[:, 7].tolist() == [0, 1, 2]


@pytest.mark.parametrize("depth", [2**16 + 1, 10**9, 2**31 + 1, 2**64, 10**30])
def test_a_ring_that_no_memory_holds_is_refused(depth):
    """With its bound, before anything is allocated; by hand as well."""
    with pytest.raises(ValueError, match=rf"cannot be more than 65536, got {depth}"):
        IPUOutfeedQueue(buffer_depth=depth)
    if depth < 2**63:
        with pytest.raises(tf.errors.InvalidArgumentError, match="`capacity` must be"):
            _native.entry().ipufeed_outfeed_new(10**9, b"big", 0, depth, 0)
    else:
        with pytest.raises(OverflowError, match="must be in"):
            _native.entry().ipufeed_outfeed_new(10**9, b"big", 0, depth, 0)


def test_the_deepest_ring_works():
    """Its bound is in the documentation."""
    outfeed = IPUOutfeedQueue(buffer_depth=2**16)
    program_of(outfeed, lambda i: i)(10)
    assert outfeed.stats().capacity == 2**16
    assert outfeed.dequeue().shape == (10,)


def test_the_signature_is_there_from_the_first_result_on():
    """And an other one after the deleter."""
    outfeed = IPUOutfeedQueue()
    assert read_stored(outfeed._number, None) is None
    shapes = [[2], [], [1] * 40, [3, 5]] * 3
    run = program_of(outfeed, lambda i: tuple(tf.fill(shape, i) for shape in shapes))
    run(1)
    stored = read_stored(outfeed._number, None)
    assert [spec.shape.as_list() for spec in stored.specs] == shapes
    assert read_stored(outfeed._number, stored) is stored
    _ = outfeed.deleter
    assert read_stored(outfeed._number, stored) is None
    run(1)

    assert read_stored(outfeed._number, stored).identity != stored.identity
