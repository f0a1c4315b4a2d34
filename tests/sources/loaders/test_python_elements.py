"""Elements that Python reads: their values, their ends and their errors."""

import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed.sources import from_loader
from ipufeed.sources.loaders.python_elements import _forget, python_elements

v1 = tf.compat.v1

LARGE = 20_000  # numbers; their bytes are kept in the cache of blocks


def spec_of(*arrays):
    return tuple(tf.TensorSpec(each.shape, tf.as_dtype(each.dtype)) for each in arrays)


def dataset_of(*elements):
    return python_elements(lambda: iter(elements), spec_of(*elements[0]))


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int32", "int64", "float16", "float32", ml_dtypes.bfloat16],
)
def test_arrays_of_each_type_keep_their_bytes(dtype):
    arrays = [(np.arange(k, k + 6).reshape(2, 3) % 2).astype(dtype) for k in range(3)]
    found = list(dataset_of(*([each] for each in arrays)).as_numpy_iterator())

    assert [each[0].tobytes() for each in found] == [each.tobytes() for each in arrays]
    assert found[0][0].dtype == arrays[0].dtype


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3),
        np.zeros([0, 4], np.int32),
        np.arange(12).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.broadcast_to(np.float32(2), [3, 2]),
        np.arange(LARGE),
    ],
    ids=["scalar", "empty", "transposed", "strided", "read-only", "large"],
)
def test_arrays_in_any_memory_are_copied_as_they_are(array):
    array = np.asarray(array)
    (found,) = dataset_of([array, np.int32(7)]).as_numpy_iterator()

    np.testing.assert_array_equal(found[0], array)
    assert found[1] == 7


def test_each_iteration_is_a_pass_of_its_own():
    opened = []

    def open_pass():
        opened.append(len(opened))
        return iter([[np.int32(opened[-1])]] * 2)

    dataset = python_elements(open_pass, (tf.TensorSpec([], tf.int32),))
    pairs = tf.data.Dataset.zip(dataset, dataset).repeat(2)

    assert not opened
    assert [each.tolist() for each in np.squeeze(list(pairs.as_numpy_iterator()))] == [
        *[[0, 1]] * 2,
        *[[2, 3]] * 2,
    ]


@pytest.mark.parametrize("size", [4, LARGE])
def test_memory_that_the_reader_writes_again_is_not_shared(size):
    def reused():
        memory = np.zeros(size, np.int32)
        for number in range(20):
            memory[:] = number
            yield [memory]

    dataset = python_elements(reused, (tf.TensorSpec([size], tf.int32),))
    (batch,) = dataset.prefetch(8).batch(20).as_numpy_iterator()

    assert (batch[0] == np.arange(20)[:, None]).all()


def test_a_structure_has_the_order_of_its_names():
    spec = {"b": tf.TensorSpec([], tf.int32), "a": (tf.TensorSpec([2], tf.float32),)}
    flat = [np.float32([1, 2]), np.int32(3)]
    (found,) = python_elements(lambda: iter([flat]), spec).as_numpy_iterator()

    assert found["b"] == 3
    assert found["a"][0].tolist() == [1, 2]


@pytest.mark.parametrize("read", [0, 2])
def test_an_iterator_that_is_left_is_closed(read):
    """One that was not read has not been opened."""
    begun, closed = [], threading.Event()

    def endless():
        begun.append(True)
        try:
            while True:
                yield [np.int32(1)]
        finally:
            closed.set()

    dataset = python_elements(endless, (tf.TensorSpec([], tf.int32),))
    iterator = iter(dataset)
    for _ in range(read):
        next(iterator)
    del iterator
    gc.collect()

    assert bool(begun) == closed.is_set() == bool(read)


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (ValueError("too short"), tf.errors.InvalidArgumentError),
        (TypeError("no number"), tf.errors.InvalidArgumentError),
        (MemoryError("all of it"), tf.errors.ResourceExhaustedError),
        (NotImplementedError("not yet"), tf.errors.UnimplementedError),
        (OSError("no file \N{SNOWMAN}" * 1000), tf.errors.UnknownError),
        (SystemExit("left"), tf.errors.UnknownError),
        (ValueError("a.jpg \udcff"), tf.errors.InvalidArgumentError),
    ],
)
def test_an_exception_is_an_error_with_its_type_and_text(raised, becomes):
    """As in a tf.py_function. A text of any length, of whole characters; then the end."""

    def failing():
        yield [np.int32(1)]
        raise raised

    iterator = iter(python_elements(failing, (tf.TensorSpec([], tf.int32),)))
    assert next(iterator)[0] == 1
    with pytest.raises(becomes, match=f"{type(raised).__name__}: {str(raised)[:6]}"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("on_main", [True, False])
def test_an_exception_in_a_loop_over_a_dataset_stays(on_main):
    """Python frees the iterator while it unwinds the loop."""
    closed, raised = [], []

    def endless():
        try:
            while True:
                yield [np.int32(1)]
        finally:
            closed.append(True)

    def loop():
        try:
            for _ in python_elements(endless, (tf.TensorSpec([], tf.int32),)):
                raise ValueError("mine")
        except Exception as error:
            raised.append(error)

    if on_main:
        loop()
    else:
        thread = threading.Thread(target=loop)
        thread.start()
        thread.join()
    gc.collect()
    assert [str(each) for each in raised] == ["mine"]
    assert closed


def test_an_exception_without_a_text_is_an_error_with_its_type():
    class TextlessError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def failing():
        raise TextlessError
        yield

    dataset = python_elements(failing, (tf.TensorSpec([], tf.int32),))
    with pytest.raises(tf.errors.UnknownError, match="TextlessError"):
        next(iter(dataset))


def test_a_callback_that_raises_gives_no_element(monkeypatch):
    """It then returns 0, and where the arrays are is not known."""
    monkeypatch.setattr("ipufeed.sources.loaders.python_elements._answer", None)
    monkeypatch.setattr("ipufeed.sources.loaders.python_elements.LoaderError", None)
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)

    with pytest.raises(tf.errors.UnknownError):
        next(iter(dataset_of([np.int32(1)])))


def test_an_element_of_other_bytes_is_refused():
    dataset = dataset_of([np.zeros(3, np.int32)], [np.zeros(4, np.int32)])

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"of \[12\] bytes, got \[16\]"
    ):
        list(dataset)


class Numbers:
    """Opens passes over numbers."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def __call__(self):
        return iter([[np.int32(number)] for number in self.numbers])


def numbered(*numbers):
    """A dataset, and a weak reference to what opens its passes."""
    opens = Numbers(*numbers)
    dataset = python_elements(opens, (tf.TensorSpec([], tf.int32),))
    return dataset, weakref.ref(opens)


def values_of(dataset):
    return [int(each) for (each,) in dataset]


def test_elements_can_be_read_as_long_as_a_tensor_of_the_dataset_exists():
    dataset, source = numbered(1, 2, 3)
    variant, spec = dataset._variant_tensor, dataset.element_spec
    del dataset
    gc.collect()
    again = tf.data.experimental.from_variant(variant, spec)
    assert values_of(again) == [1, 2, 3]

    del again, variant
    gc.collect()
    assert source() is None


def test_a_function_reads_a_dataset_that_it_makes():
    """At each call, also when another function calls it."""
    sources = []

    @tf.function
    def inner():
        dataset, source = numbered(1, 2, 3, 4)
        sources.append(source)
        return dataset.reduce(0, lambda total, each: total + each[0])

    def call():
        @tf.function
        def outer():
            return 10 * inner()

        assert int(outer()) == 100

    call()
    gc.collect()
    assert [int(inner()), int(inner())] == [10, 10]

    (source,) = sources
    inner = None
    gc.collect()
    assert source() is None


def test_a_function_that_has_read_a_dataset_can_be_deleted():
    """TensorFlow waits for the dataset's threads then, and has Python's lock."""

    def total(dataset):
        @tf.function
        def add():
            found = 0
            for (each,) in dataset:
                found += each
            return found + dataset.reduce(0, lambda some, each: some + each[0])

        return int(add())

    for _ in range(3):
        assert total(numbered(1, 2, 3)[0]) == 12
        gc.collect()


@pytest.mark.parametrize(
    "make", [v1.data.make_initializable_iterator, v1.data.make_one_shot_iterator]
)
def test_a_graph_reads_a_dataset_that_is_made_in_it(make):
    with tf.Graph().as_default() as graph:
        dataset, source = numbered(1, 2)
        iterator = make(dataset)
        following = iterator.get_next()
        del dataset
        gc.collect()
        with v1.Session() as session:
            for _ in range(2 if make is v1.data.make_initializable_iterator else 1):
                if make is v1.data.make_initializable_iterator:
                    session.run(iterator.initializer)
                assert [session.run(following) for _ in range(2)] == [(1,), (2,)]

    assert source() is not None
    del graph, iterator, following, session
    gc.collect()
    assert source() is None


def test_the_elements_of_a_dataset_whose_state_was_reset_are_refused():
    dataset, _ = numbered(1, 2, 3, 4, 5)
    _forget()

    with pytest.raises(tf.errors.InvalidArgumentError, match="does not exist any more"):
        list(dataset)


END = """
    import threading, time
    import numpy as np, tensorflow as tf
    from ipufeed.sources.loaders.python_elements import python_elements

    begun = threading.Event()

    def slow():
        while True:
            begun.set()
            {work}
            yield [np.zeros(1000, np.float32)]

    dataset = python_elements(slow, (tf.TensorSpec([1000], tf.float32),)).prefetch(4)
    iterators = [iter(dataset) for _ in range(3)]
    for iterator in iterators:
        next(iterator)
    def read():
        for _ in dataset:
            pass
    threading.Thread(target=read, daemon=True).start()
    begun.wait()
    print("ends", flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("work", ["pass", "time.sleep(0.001)", "sum(range(20_000))"])
def test_a_process_ends_while_datasets_read(work):
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(END.format(work=work))],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )

    assert "ends" in ended.stdout, ended.stderr
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_a_generator_is_closed_where_its_iteration_ends():
    """Also that of the first element."""
    closed = []

    def endless():
        try:
            while True:
                yield np.zeros(2)
        finally:
            closed.append(True)

    dataset = from_loader(endless)
    assert closed == [True]

    assert len(list(dataset.take(2))) == 2
    assert closed == [True, True]
