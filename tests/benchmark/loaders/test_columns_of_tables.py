"""Columns of tables: their bytes are those of Arrow's buffers, without Python objects."""

import numpy as np
import pyarrow as pa
import pytest

from ipufeed.benchmark.loaders.rows import columns_of
from ipufeed.sources.loaders.kinds import kind_of, why_not
from ipufeed.sources.loaders.leaves import Copies, bytes_of, leaves_of, views_of

TEXTS = ["ab", "c", "", "def", None, "g"]


def viewed(column):
    """The bytes that a copy of the column reads."""
    return b"".join(each.tobytes() for each in views_of(column))


def text_of(characters, *ends, dtype=np.int32):
    return np.array(ends, dtype).tobytes() + characters


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3], pa.int16()), np.array([1, 2, 3], np.int16).tobytes()),
        (pa.array([1, 2, 3, 4])[1:3], np.array([2, 3]).tobytes()),
        (pa.array([0.5, None, 1.5])[2:], np.array([1.5]).tobytes()),
        (pa.array([True] * 9 + [False]), b"\xff\x01"),
        (pa.array(TEXTS)[1:4], text_of(b"cdef", 2, 3, 3, 6)),
        (pa.array(TEXTS).cast(pa.large_string())[5:], text_of(b"g", 6, 7, dtype="i8")),
        (pa.array([b"ab", b"cd"], pa.binary(2))[1:], b"cd"),
        (pa.array([[1, 2], [], [3]], pa.list_(pa.int8()))[1:], b"\x03"),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))[1:], b"\x03\x04"),
        (pa.array([{"a": 1, "b": "x"}]), np.int64(1).tobytes() + text_of(b"x", 0, 1)),
        (pa.array(["u", "v", "u"]).dictionary_encode(), np.int32([0, 1, 0]).tobytes()),
        (pa.chunked_array([pa.array([1]), pa.array([2])]), np.int64([1, 2]).tobytes()),
        (pa.array([], pa.string()), b""),
        (pa.nulls(3), b""),
        (pa.scalar("abc"), b""),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else None,
)
def test_a_column_of_arrow_is_copied_as_it_is_laid_out(column, expected):
    """Of a slice, its own part; no array of Python's objects is made."""
    assert viewed(column) == expected
    Copies().copy(column)


def test_columns_of_a_batch_of_arrow_count_and_are_copied():
    """What is copied of it is what it counts, but for one offset more of text."""
    batch = pa.record_batch({"x": pa.array([1.0, 2.0]), "s": pa.array(["a", "bc"])})

    assert sum(len(viewed(leaf)) for leaf in leaves_of(batch[1:])) == 8 + 8 + 2
    assert sum(map(bytes_of, leaves_of(batch))) == 16 + 8 + 3


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def test_text_of_pandas_is_copied_where_arrow_holds_it(pandas):
    """Python's strings are not, nor are numbers with nulls."""
    held = pandas.Series(["ab", "c"], dtype=pandas.StringDtype("pyarrow"))
    assert viewed(held).endswith(b"abc")
    assert viewed(pandas.Series([1, 2], dtype="int32")) == np.int32([1, 2]).tobytes()
    for other in (
        pandas.Series(["ab", "c"], dtype=pandas.StringDtype("python")),
        pandas.Series([1, None], dtype="Int64"),
        pandas.Series(["a", "b"], dtype="category"),
    ):
        assert views_of(other) == []


def test_columns_of_polars_are_leaves_and_its_rows_samples():
    """Numbers are viewed; text is counted; a frame alone is not a loader."""
    polars = pytest.importorskip("polars")
    numbers = np.arange(6.0)
    frame = polars.DataFrame({"x": numbers, "s": ["abc"] * 6})

    x, s = leaves_of(frame)
    assert columns_of(frame) == [[6]]
    assert (bytes_of(x), viewed(x)) == (48, numbers.tobytes())
    assert bytes_of(s) >= 18
    assert views_of(s) == []
    assert kind_of(frame) is None
    assert "It is a table in memory" in why_not(frame)
    assert kind_of(frame.iter_slices(2)).name == "generator"
