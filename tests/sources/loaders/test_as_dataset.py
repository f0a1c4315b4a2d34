"""A loader becomes a tf.data dataset, which feeds the device."""

import dataclasses
import gc
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from ipufeed.benchmark.device.measure import measure_through
from ipufeed.errors import UnsupportedElementError
from ipufeed.sources.loaders.as_dataset import Reading, as_dataset, first_of
from ipufeed.sources.loaders.element_arrays import arrays_of
from ipufeed.sources.loaders.kinds import kind_of


class Loader:
    """Batches of four, in as many passes as one asks for."""

    def __init__(self, batches=20, length=None):
        self.batches, self.length = batches, length

    def __len__(self):
        return self.batches if self.length is None else self.length

    def __iter__(self):
        for number in range(self.batches):
            yield {
                "image": np.full((4, 3), number, np.float32),
                "label": np.full(4, number, np.int64),
            }


def dataset_of(loader):
    kind = kind_of(loader)
    return as_dataset(kind, first_of(kind))


@dataclasses.dataclass
class Example:
    image: np.ndarray
    weight: float
    text: None = None


def test_a_loader_as_a_dataset_has_its_elements():
    dataset = dataset_of(Loader(3))
    found = list(dataset.as_numpy_iterator())

    assert dataset.element_spec["label"].dtype.name == "int32"  # what a feed carries
    assert [int(each["label"][0]) for each in found] == [0, 1, 2]
    assert len(list(dataset)) == 3  # a second time


def test_the_time_in_the_loader_is_known():
    """Of each element behind the very first one, which takes a start-up."""
    kind, reading = kind_of(Loader(3)), Reading()
    dataset = as_dataset(kind, first_of(kind), reading)
    assert reading.seconds_each is None

    assert len(list(dataset.repeat(2))) == 6
    assert reading.elements == 5
    assert reading.seconds_each > 0


def test_the_time_in_the_loader_has_the_starts_of_later_passes():
    """As the period of the dataset has them."""
    clock = [0.0]

    class Starting(Loader):
        def __iter__(self):
            clock[0] += 100.0
            for element in super().__iter__():
                clock[0] += 1.0
                yield element

    kind, reading = kind_of(Starting(3)), Reading()
    first = next(iter(Loader(1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: clock[0])
        assert len(list(as_dataset(kind, first, reading).repeat(2))) == 6

    assert (reading.elements, reading.seconds) == (5, 105.0)  # of the clock above
    assert reading.seconds_each == 21.0


def test_an_iterator_is_not_a_source_for_the_device():
    generator = iter(Loader())
    with pytest.raises(ValueError, match="def make_loader"):
        dataset_of(generator)


def test_a_loader_without_an_element_is_refused():
    with pytest.raises(ValueError, match="no element"):
        dataset_of(Loader(0))


def test_an_element_of_another_shape_is_named_with_what_to_change():
    class Ragged(Loader):
        def __iter__(self):
            yield np.zeros((4, 2), np.float32)
            yield np.zeros((3, 2), np.float32)

    elements = dataset_of(Ragged(2)).as_numpy_iterator()
    next(elements)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"element 1 \(from 0\) has float32 \(3, 2\), .*\(4, 2\).*drop_last",
    ):
        next(elements)


def test_what_the_end_of_a_pass_raises_is_not_the_loaders_failure(monkeypatch):
    """Of one that is left before its end."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: raised.append(error))

    class Closing(Loader):
        def __iter__(self):
            try:
                yield from super().__iter__()
            finally:
                raise OSError("cannot be closed")

    reading = Reading()
    dataset = as_dataset(kind_of(Closing(9)), next(iter(Loader(1))), reading)
    assert len(list(dataset.take(3))) == 3
    gc.collect()

    assert [each.exc_type for each in raised] == [OSError]
    assert reading.failure is None


def test_strings_are_left_out_by_their_place():
    """Those in a list of nothing else as the list."""
    texts = []
    element = {
        "image": np.zeros(3),
        "text": "abc",
        "more": (b"de", np.array(["a"]), 5),
        "words": ["f", "g"],
        "column": pa.array(["h", "i"]),
    }

    found = arrays_of(element, "element", texts)

    assert list(found) == ["image", "more"]
    assert [each.item() for each in found["more"]] == [5]
    assert texts == [
        "element['text']",
        "element['more'][0]",
        "element['more'][1]",
        "element['words']",
        "element['column']",
    ]


def test_an_element_that_has_only_strings_is_refused():
    """The first one, and one after others."""

    class Words(Loader):
        def __iter__(self):
            yield from ({"a": each} for each in self.elements)

    for elements, words in (
        (["x"], "hold an array, got"),
        ([1, "x"], "has nothing at"),
    ):
        loader = Words(1)
        loader.elements = elements
        with pytest.raises(
            (UnsupportedElementError, tf.errors.InvalidArgumentError), match=words
        ):
            list(dataset_of(loader))


def test_strings_that_are_left_out_are_warned_of():
    class Named(Loader):
        def __iter__(self):
            for number in range(40):
                yield {"x": np.zeros(3), "key": str(number), "a": "", "b": "", "c": ""}

    result = measure_through(Named(1))

    assert (result.error, result.elements) == (None, 40)
    (warning,) = [
        each for each in result.warnings if each["code"] == "strings_left_out"
    ]
    assert warning["message"].endswith(
        "takes them: element['key'], element['a'], element['b'] and 1 more."
    )


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ([("a", "f4"), ("b", "i4")], r"void64 \(3,\)"),
        ("complex64", r"complex64 \(3,\)"),
        ("datetime64[s]", r"datetime64\[s\] \(3,\)"),
    ],
)
def test_arrays_of_other_values_are_refused_by_their_type(dtype, text):
    with pytest.raises(UnsupportedElementError, match=rf"must be .* got {text}"):
        arrays_of(np.zeros(3, dtype), "element")


@pytest.mark.parametrize(
    ("dtype", "carried"),
    [
        ("int16", "int32"),
        ("uint16", "int32"),
        (tf.bfloat16.as_numpy_dtype, "float32"),
        (ml_dtypes.float8_e4m3fn, "float32"),
        (ml_dtypes.float8_e5m2, "float32"),
        (np.longdouble, "float32"),
    ],
)
def test_numbers_become_those_that_a_feed_carries(dtype, carried):
    assert arrays_of(np.ones(3, dtype), "element").dtype == carried


@pytest.mark.parametrize("element", [{}, [], {"a": None}])
def test_an_element_without_an_array_is_refused(element):
    class Empty(Loader):
        def __iter__(self):
            yield element

    with pytest.raises(UnsupportedElementError, match="must hold an array, got"):
        dataset_of(Empty(1))


def test_structures_are_those_that_tf_data_takes():
    found = arrays_of([np.zeros(3), {"a": [1, 2], "b": None}, (2.5,)], "element")

    assert isinstance(found, tuple)
    assert found[1]["a"].tolist() == [1, 2]
    assert list(found[1]) == ["a"]
    assert found[2][0].dtype == np.float32
    rows = pa.record_batch({"x": np.arange(3)})
    assert arrays_of(rows, "element")["x"].tolist() == [0, 1, 2]


def test_numbers_in_a_tuple_are_arrays_of_their_own():
    """As in `yield step, loss`: in one array the integer would be a float."""

    class Loader:
        def __iter__(self):
            yield from [(2**24 + 1, 0.5, True), (3, 1.5, False)]

    dataset = dataset_of(Loader())

    assert [spec.dtype for spec in dataset.element_spec] == [
        *(tf.int32, tf.float32, tf.bool)
    ]
    assert list(dataset.as_numpy_iterator()) == [
        (2**24 + 1, 0.5, True),
        (3, 1.5, False),
    ]


def test_strings_of_any_length_are_left_out_as_strings():
    pytest.importorskip("numpy", minversion="2")
    texts = []
    words = np.array(["a", "bcd"], np.dtypes.StringDType())
    found = arrays_of({"x": np.zeros(3), "words": words}, "element", texts)

    assert list(found) == ["x"]
    assert texts == ["element['words']"]


def test_names_of_a_dataclass_are_those_of_its_fields():
    """Without those that are None."""
    found = arrays_of(Example(np.zeros(3), 0.5), "element")

    assert list(found) == ["image", "weight"]
    assert found["image"].shape == (3,)
    with pytest.raises(UnsupportedElementError, match=r"element\['weight'\] must be"):
        arrays_of(Example(np.zeros(3), object()), "element")


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_number_before_an_array_is_a_leaf_of_its_own(kind):
    """As in `yield index, image`."""
    number, image = arrays_of(kind([7, np.zeros(3)]), "element")

    assert number == 7
    assert image.shape == (3,)


def test_a_loader_that_fails_at_its_first_element_is_refused_with_the_reason():
    class Failing(Loader):
        def __iter__(self):
            raise OSError("no such bucket")
            yield

    with pytest.raises(
        ValueError,
        match=r"before its first element with OSError: no such bucket \(.*test_as_dataset",
    ):
        dataset_of(Failing())


def test_the_main_thread_does_not_iterate_a_loader():
    """On it a DataLoader of torch would install its handler for ended workers."""
    threads = []

    class Watched(Loader):
        def __iter__(self):
            threads.append(threading.current_thread())
            return super().__iter__()

    list(dataset_of(Watched(2)))

    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_a_loader_that_exits_at_its_first_element_is_refused():
    class Exiting(Loader):
        def __iter__(self):
            sys.exit(3)
            yield

    with pytest.raises(ValueError, match="with SystemExit: 3"):
        dataset_of(Exiting())


@pytest.mark.parametrize(("length", "warned"), [(7, False), (20, True), (3, True)])
def test_a_wrong_length_is_a_warning_on_the_device_too(length, warned):
    """It neither ends the run nor cuts it short."""
    result = measure_through(Loader(7, length))

    assert result.error is None
    assert result.elements == 7
    assert result.dataset["cardinality"] == length
    codes = {warning["code"] for warning in result.warnings}
    assert ("wrong_length" in codes) == warned


@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_a_failure_on_the_device_is_the_loaders_own(kind):
    """Not TensorFlow's, whose text is a traceback."""

    class Failing(Loader):
        def __iter__(self):
            yield from super().__iter__()
            raise kind("the disk is gone")

    error = measure_through(Failing(7)).error

    assert (error["type"], error["element"]) == (kind.__name__, 7)
    assert error["message"].startswith("the disk is gone (")
    assert "Traceback" not in error["message"]


def test_a_smaller_last_batch_on_the_device_is_named():
    class Ragged(Loader):
        def __iter__(self):
            yield from super().__iter__()
            yield {
                "image": np.zeros((3, 3), np.float32),
                "label": np.zeros(3, np.int64),
            }

    error = measure_through(Ragged(7)).error

    assert error["type"] == "UnsupportedElementError"
    assert error["message"].endswith("(`drop_last=True` of a DataLoader).")


def test_samples_on_the_device_are_those_of_the_batch_size():
    """Not the channels of the images that a batch lists."""

    class DataLoader:
        __module__ = "torch.utils.data.dataloader"
        batch_size, batch_sampler = 8, None

        def __iter__(self):
            return iter([[np.zeros((3, 5, 5), np.float32)] * 8] * 4)

    assert measure_through(DataLoader()).dataset["samples_per_element"] == 8
