"""`sources.from_loader`: what a loader of another framework gives, to feed it."""

import importlib.util
import re

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import sources
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import UnsupportedElementError
from ipufeed.queues import IPUInfeedQueue


class Batches:
    """Batches of two rows, in any number of passes."""

    def __init__(self, *batches):
        self.batches, self.passes = batches, 0

    def __iter__(self):
        self.passes += 1
        yield from self.batches


def rows(number, dtype=np.int64):
    return {"x": np.full((2, 3), number, np.float64), "y": np.array([number, 7], dtype)}


def values_of(dataset):
    return [int(each["y"][0]) for each in dataset.as_numpy_iterator()]


def test_a_dataset_has_the_loaders_elements_as_a_feed_carries_them():
    dataset = sources.from_loader(Batches(rows(0), rows(1)))

    assert dataset.element_spec == {
        "x": tf.TensorSpec([2, 3], tf.float32),
        "y": tf.TensorSpec([2], tf.int32),
    }
    found = list(dataset.as_numpy_iterator())
    np.testing.assert_array_equal([each["x"][1, 2] for each in found], [0.0, 1.0])
    np.testing.assert_array_equal([each["y"] for each in found], [[0, 7], [1, 7]])


def test_each_iteration_is_a_pass_behind_that_of_the_first_element():
    loader = Batches(rows(0), rows(1))
    dataset = sources.from_loader(loader)
    assert loader.passes == 1

    assert values_of(dataset.repeat(2)) == [0, 1, 0, 1]
    assert loader.passes == 3


def test_an_infeed_queue_that_is_given_a_loader_names_the_function():
    with pytest.raises(TypeError, match=r"got Batches\. ipufeed.sources.from_loader"):
        IPUInfeedQueue(Batches(rows(0)))


def generator():
    yield rows(0)
    yield rows(1)


@pytest.mark.parametrize(
    "function",
    [
        generator,
        lambda: Batches(rows(0), rows(1)),
        lambda: iter([rows(0), rows(1)]),
        lambda: generator(),
        type("Made", (), {"__iter__": lambda self: generator()}),
    ],
    ids=["generator", "loader", "iterator", "iterator of a generator", "class"],
)
def test_a_function_that_makes_a_loader_is_called_for_each_pass(function):
    dataset = sources.from_loader(function)

    assert values_of(dataset) == [0, 1]
    assert values_of(dataset) == [0, 1]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ([rows(0)], "got list. Data in memory"),
        (np.zeros(3), "got ndarray. It is an array in memory"),
        (tf.data.Dataset.range(3), "feed it as it is"),
        (5, "got int"),
        ({"train": Batches(rows(0))}, "holds loaders"),
        (lambda: [rows(0)], "The function must return a loader.*got list"),
    ],
)
def test_what_is_not_a_loader_is_refused_with_what_to_do(source, what):
    with pytest.raises(TypeError, match=what):
        sources.from_loader(source)


def test_what_is_read_once_is_refused():
    with pytest.raises(ValueError, match=r"generator is read once.*def make_loader"):
        sources.from_loader(generator())


def test_a_loader_that_does_not_start_again_is_an_error():
    """Not a dataset without elements."""

    class Around:
        def __init__(self, iterator):
            self.iterator = iterator

        def __iter__(self):
            return self.iterator

    dataset = sources.from_loader(Around(generator()))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"gave no element.*does not start again.*def make_loader",
    ):
        list(dataset)


def test_a_loader_without_elements_is_refused():
    with pytest.raises(ValueError, match="no element: there is nothing to feed"):
        sources.from_loader(Batches())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int64, 2**31),
        (np.int64, -(2**31) - 1),
        (np.uint32, 2**31),
        (np.uint64, 2**63),
    ],
)
def test_an_integer_that_does_not_fit_is_an_error(dtype, value):
    """Of the first element at the call, of others when they are read."""
    does_not_fit = rf"element\['y'\] is fed as int32, which does not hold {value}"
    with pytest.raises(UnsupportedElementError, match=does_not_fit):
        sources.from_loader(Batches(rows(value, dtype)))

    dataset = sources.from_loader(Batches(rows(1, dtype), rows(value, dtype)))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"element 1 \(from 0\): {does_not_fit}"
    ):
        list(dataset)


def test_integers_of_python_must_fit_too():
    numbers = sources.from_loader(Batches(2**31 - 1, -(2**31)))
    assert list(numbers.as_numpy_iterator()) == [2**31 - 1, -(2**31)]

    with pytest.raises(ValueError, match=r"element is fed.* not hold 2147483648"):
        sources.from_loader(Batches(2**31))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int64, np.uint32, np.uint64])
def test_all_that_fits_keeps_its_value(dtype):
    largest = min(np.iinfo(dtype).max, 2**31 - 1)
    least = max(np.iinfo(dtype).min, -(2**31))
    loader = Batches(rows(least, dtype), rows(largest, dtype))

    assert values_of(sources.from_loader(loader)) == [least, largest]


def test_a_float_beyond_float32_is_an_error():
    """Infinities and NaN are those of the loader."""
    kept = np.array([np.inf, -np.inf, np.nan, 3e38])
    dataset = sources.from_loader(Batches(kept, np.array([1.0, 2.0, 3.0, -1e300])))
    iterator = dataset.as_numpy_iterator()

    np.testing.assert_array_equal(next(iterator), np.float32(kept))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"as float32, which does not hold -1e.300"
    ):
        next(iterator)


def test_an_element_that_does_not_fit_can_be_left_out():
    elements = [np.ones(2), np.ones(1), np.array([2.0, 1e300]), np.full(2, 3.0)]
    dataset = sources.from_loader(Batches(*elements)).ignore_errors()

    assert [each.tolist() for each in dataset.as_numpy_iterator()] == [[1, 1], [3, 3]]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ((None, 1), (2, None), "another structure"),
        ({"x": 1, "y": 1}, {"x": None, "y": 2}, r"has nothing at \['x'\]"),
        ({"x": [1, None]}, {"x": [None, 1]}, "another structure"),
        ((5, np.ones(2)), (None, np.ones(2)), "element 1"),
    ],
)
def test_a_part_that_is_missing_elsewhere_is_an_error(first, second, what):
    """The parts behind it do not take its place."""
    dataset = sources.from_loader(Batches(first, second))

    with pytest.raises(tf.errors.InvalidArgumentError, match=what):
        list(dataset)


def test_masked_values_are_refused():
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(UnsupportedElementError, match="it has masked values"):
        sources.from_loader(Batches(masked))

    (found,) = sources.from_loader(Batches(np.ma.array([1, 2]))).as_numpy_iterator()
    assert found.tolist() == [1, 2]


def test_the_reason_why_an_array_cannot_be_read_is_in_the_error():
    class Lazy:
        def __array__(self, *arguments, **options):
            raise OSError("disk gone")

    with pytest.raises(UnsupportedElementError, match=r"\(OSError: disk gone\)"):
        sources.from_loader(Batches(Lazy()))


class OneIterator(Batches):
    """iter() starts its iterator again, as persistent workers do."""

    def __iter__(self):
        self.number = -1
        return Again.of(self)


class Again:
    """The iterator of all passes over a loader."""

    @classmethod
    def of(cls, loader):
        loader.again = getattr(loader, "again", None) or cls()
        loader.again.loader = loader
        return loader.again

    def __iter__(self):
        return self

    def __next__(self):
        self.loader.number += 1
        if self.loader.number == len(self.loader.batches):
            raise StopIteration
        return self.loader.batches[self.loader.number]


def test_two_passes_of_one_iterator_are_an_error_of_the_first():
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = (
        False  # no element is read ahead
    )
    loader = OneIterator(rows(0), rows(1), rows(2))
    dataset = sources.from_loader(loader).with_options(options)
    assert values_of(dataset.repeat(2)) == [0, 1, 2, 0, 1, 2]

    first, second = dataset.as_numpy_iterator(), dataset.as_numpy_iterator()
    assert [next(first)["y"][0], next(second)["y"][0]] == [0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a second pass over"):
        next(first)
    assert [each["y"][0] for each in second] == [1, 2]


def test_a_function_that_makes_the_same_iterator_again_is_refused():
    iterator = iter([rows(0), rows(1)])
    dataset = sources.from_loader(lambda: iterator)

    with pytest.raises(tf.errors.InvalidArgumentError, match="a new list_iterator at"):
        list(dataset)


def test_an_empty_array_of_integers_has_no_limits():
    dataset = sources.from_loader(Batches((np.zeros([0], np.int64), np.ones(2))))

    assert dataset.element_spec[0] == tf.TensorSpec([0], tf.int32)


def test_strings_are_refused_with_their_places():
    element = {"x": np.ones(2), "names": ["a", "b"], "more": ({"path": "c"},)}

    with pytest.raises(UnsupportedElementError, match="generator function") as raised:
        sources.from_loader(Batches(element))
    assert ": element['names'], element['more']. " in str(raised.value)


def test_keys_of_the_same_text_are_refused():
    with pytest.raises(UnsupportedElementError, match="two keys with the text '1'"):
        sources.from_loader(Batches({1: np.ones(2), "1": np.zeros(2)}))


def test_an_element_of_another_shape_is_named():
    last = {"x": np.ones((1, 3)), "y": np.ones(1, np.int64)}
    dataset = sources.from_loader(Batches(rows(0), last))

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"element 1 \(from 0\).*drop_last"
    ):
        list(dataset)


def test_an_exception_has_its_type_text_and_line():
    def failing():
        yield rows(0)
        raise LookupError("no such file")

    dataset = sources.from_loader(failing)
    with pytest.raises(tf.errors.OpError) as raised:
        list(dataset)
    line = failing.__code__.co_firstlineno + 2
    assert re.search(
        rf"LookupError: no such file \({__file__}:{line}\)", str(raised.value)
    )


@pytest.mark.parametrize("end", ["the cause", "the \0 cause"])
def test_a_long_text_loses_its_middle(end):
    def failing():
        yield rows(0)
        raise LookupError("x" * 9_000 + end)

    with pytest.raises(tf.errors.OpError) as raised:
        list(sources.from_loader(failing))
    shown = re.escape(end.replace("\0", r"\0"))
    assert re.search(
        rf"LookupError: x+ \[\.\.\.\] x+{shown} \({__file__}:\d+\)", str(raised.value)
    )


def test_a_program_that_is_fed_ends_with_the_loaders_exception():
    def failing():
        yield rows(1)
        yield rows(2)
        raise LookupError("no such file")

    @tf.function(jit_compile=True)
    def add(iterator, count):
        total = 0
        for _ in tf.range(count):
            total += next(iterator)["y"][0]
        return total

    strategy, dataset = IPUStrategy(), sources.from_loader(failing)
    with strategy.scope():
        assert int(strategy.run(add, args=[iter(dataset), 2])) == 3
        with pytest.raises(tf.errors.OpError, match="LookupError: no such file"):
            strategy.run(add, args=[iter(dataset), 3])


def test_a_first_element_that_fails_is_an_error_of_the_call():
    def failing():
        raise LookupError("no such file")
        yield

    with pytest.raises(ValueError, match="LookupError: no such file") as raised:
        sources.from_loader(failing)
    assert isinstance(raised.value.__cause__, LookupError)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # where JAX is imported
@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_of_pytorch(workers):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed; the extra `loaders` brings it")
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(32.0).reshape(16, 2), torch.arange(16))
    loader = DataLoader(data, batch_size=4, drop_last=True, num_workers=workers)
    dataset = sources.from_loader(loader)

    assert dataset.element_spec == (
        tf.TensorSpec([4, 2], tf.float32),
        tf.TensorSpec([4], tf.int32),
    )
    if workers:
        again = DataLoader(data, 4, num_workers=workers, persistent_workers=True)
        several = sources.from_loader(again)
        assert len(list(several.repeat(2))) == 8
        with pytest.raises(tf.errors.InvalidArgumentError, match="persistent_workers"):
            list(tf.data.Dataset.zip((several, several)))
    for _ in range(2):
        labels = [each.tolist() for _, each in dataset.as_numpy_iterator()]
        assert labels == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
