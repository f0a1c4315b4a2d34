"""The samples of an element are the rows that its columns agree on."""

from collections import namedtuple

import numpy as np
import pyarrow as pa
import pytest

from ipufeed.benchmark.loaders.extents import Extents
from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.sources.loaders.kinds import kind_of
from ipufeed.sources.loaders.leaves import leading_of, leaves_of

Pair = namedtuple("Pair", "image label")
IMAGE = np.zeros((3, 5, 5), np.float32)


def counted(element, rows):
    leading = {leading_of(leaf) for leaf in leaves_of(element)}
    return rows.of(element, leading.pop() if len(leading) == 1 else None)


def images(number):
    return [IMAGE] * number


def boxes(number):
    return [{"boxes": np.zeros((each + 1, 4))} for each in range(number)]


def of_images(number):
    """Batches as loaders make them of samples: collated, or lists of samples."""
    names = ["abc"] * number
    stacked = np.zeros((number, 3, 5, 5))
    return {
        "stacked": (stacked, np.zeros(number)),
        "names first": {"name": names, "label": np.zeros(number)},
        "names last": [np.zeros(number), names],
        "names alone": names,
        "named": Pair(stacked, names),
        "list of images": images(number),
        "zipped": (tuple(images(number)), tuple(boxes(number))),
        "zipped names": (tuple(names), stacked),
        "pairs": list(zip(images(number), boxes(number), strict=True)),
        "rows": [{"size": 1, "name": "ab"}] * number,
        "with a scalar": {"x": stacked, "epoch": 1, "split": "train"},
        "objects": [object()] * number,
        "tables": {"table": pa.table({"x": np.zeros(number)}), "epoch": 1},
        "tokens": {"ids": [[1, 2, 3]] * number, "name": names},
    }


@pytest.mark.parametrize("case", of_images(1))
def test_the_part_of_the_size_of_a_batch_is_counted(case):
    rows = Rows(8, batches=True)

    assert counted(of_images(8)[case], rows) == 8
    assert counted(of_images(8)[case], rows) == 8
    assert counted(of_images(5)[case], rows) == 5  # the last batch


@pytest.mark.parametrize(
    "case", ["stacked", "names first", "names last", "named", "zipped", "tokens"]
)
def test_columns_that_agree_show_the_rows_without_a_size(case):
    assert counted(of_images(8)[case], Rows()) == 8
    assert counted(of_images(5)[case], Rows()) == 5


@pytest.mark.parametrize("case", ["zipped names", "with a scalar"])
def test_scalars_in_a_batch_do_not_count(case):
    """They are values of a row that may not be a batch."""
    assert counted(of_images(8)[case], Rows(batches=True)) == 8
    assert counted(of_images(8)[case], Rows()) is None


@pytest.mark.parametrize(
    "element",
    [
        None,
        (),
        {},
        1,
        "abc",
        (1, 2.0),
        (np.zeros((4, 2)), np.zeros(3)),
        (np.zeros((4, 2)), 1),
        {"ids": [1, 2, 3], "text": "abc"},
        ((1, 2), (3, 4)),
    ],
)
def test_without_an_agreement_there_is_no_number(element):
    assert counted(element, Rows()) is None


def test_two_views_of_a_batch_are_not_two_samples():
    views = {"views": [np.zeros((8, 4)), np.zeros((8, 4))], "label": np.zeros(8)}

    assert counted(views, Rows()) == 8
    assert counted(views, Rows(2)) == 2  # `batch_size` is what the loader says
    assert counted(views, Rows(8)) == 8


def test_the_size_of_an_other_element_than_a_batch_is_not_searched_again():
    """The first element decides: a smaller dataset, or one of packed tokens."""
    rows = Rows(8, batches=True)

    assert counted((np.zeros(5), np.zeros(5)), rows) == 5
    assert counted((np.zeros(7), np.zeros(7), ["a"] * 7), rows) == 7


def test_a_part_that_an_element_lacks_is_not_counted():
    rows = Rows(8, batches=True)

    assert counted({"a": ["x"] * 8, "b": np.zeros(3)}, rows) == 8
    assert counted({"b": np.zeros(3)}, rows) == 3


def test_times_may_come_before_samples():
    """As pad_sequence() of torch pads without `batch_first`."""
    rows = Rows(8, batches=True)

    assert counted(np.zeros((50, 8, 3)), rows) == 8
    assert counted(np.zeros((70, 8, 3)), rows) == 8
    assert rows.where == "the second dimension"
    assert counted(np.zeros((50, 5, 3)), rows) == 5  # the last batch
    named = {"x": np.zeros((50, 8, 3)), "mask": np.zeros((50, 8))}
    assert counted(named, Rows(8, batches=True)) == 8


TABLES = {
    "arrow": pa.table,
    "pandas": lambda columns: pytest.importorskip("pandas").DataFrame(columns),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
}


@pytest.mark.parametrize("package", TABLES)
def test_a_table_of_lists_is_a_batch_of_hugging_face(package):
    """Of one row: `.with_format("arrow").batch(8)`."""
    batch = TABLES[package]({"x": [[[1.0]] * 8], "name": [["ab"] * 8]})
    two = TABLES[package]({"x": [[1.0], [2.0]], "name": [["ab"], ["c"]]})

    assert counted(batch, Rows(batches=True, in_lists=True)) == 8
    assert counted(two, Rows(batches=True, in_lists=True)) == 2
    assert counted(batch, Rows(batches=True)) == 1


class List:
    """As of Hugging Face's features."""


class Value:
    """As of Hugging Face's features."""


@pytest.mark.parametrize(
    ("features", "batch"),
    [
        ({"ids": List(), "name": List()}, "every column is a list"),
        ({"ids": List(), "name": Value()}, None),
        ({}, None),
        (None, None),
    ],
)
def test_rows_of_hugging_face_are_batches_if_all_columns_are_lists(features, batch):
    members = {"__module__": "datasets.arrow_dataset", "features": features}
    source = type("Dataset", (), {"__iter__": lambda self: iter(()), **members})()

    assert kind_of(source).batch == batch
    # Those of a stream may be unknown; then a row in a table shows it.
    assert kind_of(source).in_lists == (batch is not None or features is None)
    assert kind_of(source).name == "datasets Dataset"


SAMPLE = {"image": np.zeros((64, 64, 3)), "mask": np.zeros((64, 64))}


@pytest.mark.parametrize(
    ("element", "samples"),
    [
        ([SAMPLE] * 10, 10),
        ([SAMPLE] * 3, 3),
        ([SAMPLE] * 2, 64),
        ([SAMPLE, SAMPLE, {"image": np.zeros((64, 2))}], 64),
        ((SAMPLE,) * 10, 64),
    ],
    ids=["ten", "three", "two views", "other keys", "a tuple"],
)
def test_a_list_of_dicts_with_the_same_keys_is_one_of_samples(element, samples):
    """Without a known batch size; two may be views of one batch."""
    rows = Rows()
    extents = Extents(rows)

    assert [extents.of(element)[1] for _ in range(3)] == [samples] * 3
    if rows.is_shown:
        assert extents.of(element[:-1])[1] == samples - 1  # the last batch


def test_fields_of_several_classes_do_not_count_as_samples():
    """An array next to a tuple is not a list of two samples."""
    element = {"a": [np.zeros(3, np.int16), (np.zeros(5),)]}
    extents = Extents(Rows())
    extents.of(element)

    assert not extents.same_leading_dimension
