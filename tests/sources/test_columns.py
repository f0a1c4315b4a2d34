"""What Arrow's arrays become: values, shapes, nulls, and what is copied."""

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest

from ipufeed.errors import SourceError
from ipufeed.sources import columns


def arrays(array, nulls="error", name="x"):
    column = columns.column_of(pa.field(name, array.type), "a.parquet")
    return columns.to_arrays([column], [array], nulls, "a.parquet, row group 3")


def texts(array, nulls="error"):
    text, ends = arrays(array, nulls)
    return [text.item()[first:last] for first, last in itertools.pairwise(ends)]


def address(array):
    return array.__array_interface__["data"][0]


DAY = datetime.date(1970, 1, 11)
NOON = datetime.datetime(1970, 1, 1, 12)
NUMBERS = [
    (pa.array([1, -2, 3], pa.int8()), np.array([1, -2, 3], np.int8)),
    (pa.array([1, 2**64 - 1], pa.uint64()), np.array([1, 2**64 - 1], np.uint64)),
    (pa.array([0.5, -1], pa.float32()), np.array([0.5, -1], np.float32)),
    (pa.array(np.float16([1, 2])), np.array([1, 2], np.float16)),
    (pa.array([True, False, True]), np.array([True, False, True])),
    (pa.array([DAY]), np.array([10], np.int32)),
    (pa.array([NOON], pa.timestamp("ms")), np.array([43_200_000], np.int64)),
    (pa.array([NOON], pa.timestamp("us", "UTC")), np.array([43_200_000_000])),
    (pa.array([5, 6], pa.duration("s")), np.array([5, 6])),
    (pa.array([7], pa.time32("s")), np.array([7], np.int32)),
    (pa.array([3, 3, 4]).dictionary_encode(), np.array([3, 3, 4])),
    (pa.chunked_array([[1, 2], [], [3]]), np.array([1, 2, 3])),
    (pa.array([], pa.int32()), np.array([], np.int32)),
    (pa.array([9, 1, 2, 3], pa.int64())[1:], np.array([1, 2, 3])),
    (
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2))[1:],
        np.array([[3, 4], [5, 6]], np.int16),
    ),
    (
        pa.array([[[1, 2, 3]] * 2] * 4, pa.list_(pa.list_(pa.float64(), 3), 2)),
        np.array([[[1, 2, 3]] * 2] * 4, np.float64),
    ),
]


@pytest.mark.parametrize(("array", "expected"), NUMBERS, ids=range(len(NUMBERS)))
def test_numbers_keep_type_and_value(array, expected):
    """Each type that has a tensor, sliced and chunked as well."""
    (found,) = arrays(array)

    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_text_is_cut_where_its_rows_end(kind):
    """Empty rows, umlauts, NULs at the end; sliced, so that offsets do not begin at 0."""
    rows = ["left out", "", "grün", "end\0\0", ""]
    array = pa.array(rows, pa.string()).cast(kind)[1:]

    assert texts(array) == [row.encode() for row in rows[1:]]
    assert texts(array[:0]) == []
    assert texts(pa.chunked_array([array, array])) == 2 * [r.encode() for r in rows[1:]]


def test_text_of_fixed_size_keeps_its_bytes():
    """fixed_size_binary is text, too."""
    array = pa.array([b"ab\0", b"\0cd"], pa.binary(3))

    assert texts(array) == [b"ab\0", b"\0cd"]


def test_numbers_without_nulls_are_not_copied():
    """What leaves is a view of Arrow's own buffer; of lists and times, too."""
    plain = pa.array(np.arange(99.0))
    lists = pa.FixedSizeListArray.from_arrays(plain, 3)
    times = plain.cast(pa.int64()).cast(pa.timestamp("ns"))

    assert address(arrays(plain)[0]) == plain.buffers()[1].address
    assert address(arrays(lists[2:])[0]) == plain.buffers()[1].address + 6 * 8
    assert address(arrays(times)[0]) == times.buffers()[1].address


LIST2 = pa.list_(pa.int32(), 2)
# A null list with numbers below it, which belong to no row.
MASKED = pa.FixedSizeListArray.from_arrays(
    pa.array([1, 2, 3, 4]), 2, mask=pa.array([False, True])
)
WITH_NULLS = [
    (pa.array([1, None, 3]), [1, 3], [1, 0, 3]),
    (pa.array([True, None]), [True], [True, False]),
    (pa.array([1.5, None, 2.5], pa.float32())[1:], [2.5], [0, 2.5]),
    (pa.array([DAY, None]), [10], [10, 0]),
    (
        pa.array([[1, 2], None, [3, 4]], LIST2),
        [[1, 2], [3, 4]],
        [[1, 2], [0, 0], [3, 4]],
    ),
    (MASKED, [[1, 2]], [[1, 2], [0, 0]]),
    (pa.array([[1, None], [3, 4]], LIST2), [[3, 4]], [[1, 0], [3, 4]]),
    (pa.array([1, None, 1]).dictionary_encode(), [1, 1], [1, 0, 1]),
]


@pytest.mark.parametrize(
    ("array", "dropped", "zeroed"), WITH_NULLS, ids=range(len(WITH_NULLS))
)
def test_nulls_are_refused_dropped_or_zero(array, dropped, zeroed):
    """As asked, at any depth; refused with the place and the remedy."""
    np.testing.assert_array_equal(arrays(array, "drop")[0], dropped)
    np.testing.assert_array_equal(arrays(array, "zero")[0], zeroed)
    with pytest.raises(
        SourceError,
        match=r"row group 3: column `x` has 1 rows with nulls.*nulls='drop'.*'zero'",
    ):
        arrays(array)


def test_null_text_is_dropped_or_empty():
    """Text has its nulls apart from its empty rows."""
    array = pa.array(["a", None, "", "b"])

    assert texts(array, "drop") == [b"a", b"", b"b"]
    assert texts(array, "zero") == [b"a", b"", b"", b"b"]


def test_a_row_is_dropped_from_all_columns():
    """A null in one column takes the row out of the others."""
    table = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})
    chosen = columns.choose_columns(table.schema, None, "a")
    data = [table.column(name) for name in table.column_names]
    numbers, text, ends = columns.to_arrays(chosen, data, "drop", "a")

    assert numbers.tolist() == [1]
    assert (text.item(), ends.tolist()) == (b"x", [0, 1])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.list_(pa.int32()), "fixed_size_list"),
        (pa.decimal128(9, 2), "float64 or int64"),
        (pa.struct([("a", pa.int32())]), r"Table\.flatten"),
        (pa.map_(pa.int32(), pa.int32()), "Leave it out with `columns`"),
        (pa.null(), "Leave it out with `columns`"),
        (pa.list_(pa.string(), 2), "Leave it out with `columns`"),
        (pa.month_day_nano_interval(), "Leave it out with `columns`"),
    ],
    ids=str,
)
def test_types_without_a_tensor_are_refused_with_the_remedy(kind, words):
    """The column, its type, and what to write instead."""
    schema = pa.schema([("fine", pa.int8()), ("odd", kind)])

    with pytest.raises(SourceError, match=f"column `odd` is of type.*{words}"):
        columns.choose_columns(schema, None, "a.parquet")
    assert len(columns.choose_columns(schema, ["fine"], "a.parquet")) == 1


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (["c"], SourceError, "a.parquet has no column `c`. It has: a, b"),
        (["a", "a"], SourceError, "column `a` is twice in `columns`"),
        ([], SourceError, "at least one column of a.parquet"),
        ("a", TypeError, "give a list of one"),
        ([1], TypeError, "list of names"),
    ],
)
def test_columns_that_cannot_be_chosen_are_named(names, error, words):
    """The requested name, and those that there are."""
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8())])

    with pytest.raises(error, match=words):
        columns.choose_columns(schema, names, "a.parquet")
