"""Bytes, samples and copies of elements as loaders give them."""

import array
import dataclasses
import sys
import types
from collections import OrderedDict, UserDict, deque, namedtuple

import numpy as np
import pyarrow as pa
import pytest

from ipufeed.sources.loaders.leaves import (
    BUFFER_BYTES,
    Copies,
    OpaqueError,
    bytes_of,
    bytes_view,
    is_table,
    leading_of,
    leaves_of,
    spec_of,
    text_of,
    views_of,
)

Pair = namedtuple("Pair", "image label")


@dataclasses.dataclass
class Example:
    image: np.ndarray
    name: str


class Encoding:
    """As of a tokenizer: names for parts, and no dict."""

    def __init__(self, **parts):
        self.parts = parts

    def keys(self):
        return self.parts.keys()

    def __getitem__(self, name):
        return self.parts[name]


IMAGE, LABEL = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
ROWS = pa.record_batch({"size": np.zeros(4, np.float32), "label": LABEL})
TABLE = pa.Table.from_batches([ROWS, ROWS])


@pytest.mark.parametrize(
    ("element", "sizes"),
    [
        (IMAGE, [48]),
        ((IMAGE, LABEL), [48, 32]),
        ([IMAGE, [LABEL, None]], [48, 32]),
        ({"a": IMAGE, "b": {"c": LABEL}}, [48, 32]),
        (OrderedDict(a=IMAGE), [48]),
        (Pair(IMAGE, LABEL), [48, 32]),
        (Example(IMAGE, "höhe"), [48, 5]),
        (Encoding(ids=IMAGE), [48]),
        (UserDict(a=IMAGE), [48]),
        (deque([IMAGE, 1]), [48, 8]),
        (array.array("d", [1, 2]), [16]),
        (ROWS, [16, 32]),
        ({"rows": TABLE}, [32, 64]),
        ([1, 2, 3], [24]),
        ([1, IMAGE], [8, 48]),
        ([1, IMAGE, 2], [8, 48, 8]),
        ([1, "abc"], [8, 3]),
        ({"ids": [1, 2, 3], "text": "abc", "raw": b"12345"}, [24, 3, 5]),
        (7, [8]),
        (2.5, [8]),
        (True, [8]),
        (np.float32(1), [4]),
        (None, []),
        ([], []),
        ((), []),
    ],
)
def test_bytes_are_those_of_the_leaves(element, sizes):
    assert [bytes_of(leaf) for leaf in leaves_of(element)] == sizes


def test_what_has_no_bytes_is_opaque():
    with pytest.raises(OpaqueError, match="object"):
        bytes_of(object())


@pytest.mark.parametrize(
    ("leaf", "leading"),
    [
        (IMAGE, 4),
        (LABEL, 4),
        (ROWS["size"], 4),
        (TABLE["size"], 8),
        (np.float32(1), None),
        ([1, 2], 2),
        ("abc", None),
        (3, None),
    ],
)
def test_the_leading_dimension_is_that_of_arrays_and_lists(leaf, leading):
    assert leading_of(leaf) == leading


@pytest.mark.parametrize(
    ("element", "spec"),
    [
        (IMAGE, "float32 (4, 3)"),
        (Pair(IMAGE, LABEL), {"image": "float32 (4, 3)", "label": "int64 (4,)"}),
        (Example(IMAGE, "x"), {"image": "float32 (4, 3)", "name": "str"}),
        ((IMAGE, [1, 2]), ["float32 (4, 3)", "list of 2 int"]),
        ([1, IMAGE], ["int", "float32 (4, 3)"]),
        ({1: None}, {"1": "None"}),
        (ROWS, {"size": "float (4,)", "label": "int64 (4,)"}),
        (b"12", "bytes"),
        (pa.py_buffer(b"12"), "Buffer"),
    ],
)
def test_the_structure_is_described(element, spec):
    assert spec_of(element) == spec


def test_sparse_arrays_have_no_bytes():
    """Those of the dense array would be too many."""
    import tensorflow as tf

    sparse = pytest.importorskip("scipy.sparse")
    for leaf in (
        sparse.csr_array(np.eye(9)),
        sparse.coo_matrix(np.eye(9)),
        tf.sparse.eye(9),
    ):
        assert leaves_of(leaf) == [leaf]
        with pytest.raises(OpaqueError):
            bytes_of(leaf)


def test_fields_of_attrs_are_parts():
    attrs = pytest.importorskip("attrs")
    kind = attrs.make_class("Sample", ["image", "label"])
    sample = kind(IMAGE, LABEL)

    assert [bytes_of(leaf) for leaf in leaves_of(sample)] == [48, 32]
    assert spec_of(sample) == {"image": "float32 (4, 3)", "label": "int64 (4,)"}
    assert leaves_of(kind) == [kind]  # a class has no values


def test_columns_of_pandas_are_leaves_and_its_rows_samples():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": np.zeros(6), "y": np.zeros(6, np.int32)})

    assert is_table(table)
    assert not is_table(table["x"])
    assert [bytes_of(leaf) for leaf in leaves_of(table)] == [48, 24]
    assert spec_of(table) == {"x": "float64 (6,)", "y": "int32 (6,)"}
    assert len(leaves_of(table["x"])) == 1
    assert len(leaves_of(pandas.concat([table, table], axis=1))) == 4  # names twice
    names = pandas.Series(["ab", "c"], dtype=pandas.StringDtype("python"))
    with pytest.raises(OpaqueError):
        bytes_of(names)  # pointers


def test_tensors_of_unknown_dimensions_have_no_bytes():
    import tensorflow as tf

    ragged = tf.ragged.constant([[1], [2, 3]])
    unknown = types.SimpleNamespace(shape=tf.TensorShape(None), dtype=tf.int32)

    assert text_of(ragged) == "int32 (2, None)"
    assert leading_of(ragged) == 2
    assert text_of(unknown) == "SimpleNamespace"
    assert bytes_of(ragged) == 3 * 4 + 3 * 8  # the values, and where rows begin
    with pytest.raises(OpaqueError):
        bytes_of(unknown)


def test_arrays_of_texts_have_the_bytes_of_these():
    import tensorflow as tf

    assert bytes_of(np.array([["a", "ö"], [b"xyz", ""]], object)) == 1 + 2 + 3
    assert bytes_of(tf.constant(["ab", "c"])) == 3
    assert bytes_of(tf.ragged.constant([["ab"], ["c", "d"]])) == 4 + 3 * 8


def test_arrays_of_objects_have_no_bytes():
    """NumPy's are those of the pointers."""
    with pytest.raises(OpaqueError):
        bytes_of(np.array(["a", 3], object))


def test_dates_of_pandas_have_no_bytes_and_no_views():
    pandas = pytest.importorskip("pandas")
    for leaf in (pandas.Timestamp("2020-01-01"), pandas.NaT, pandas.NA):
        with pytest.raises(OpaqueError):
            bytes_of(leaf)
        assert views_of(leaf) == []


class _Date:
    """As of pandas, for environments without it."""

    __module__ = "pandas"


def test_an_object_of_pandas_without_a_dtype_has_no_views():
    assert views_of(_Date()) == []


def test_a_leaf_that_raises_for_its_size_is_opaque():
    """As a nested tensor of torch, whose shape raises RuntimeError."""

    class Nested:
        dtype = np.dtype(np.float32)

        @property
        def shape(self):
            raise RuntimeError("no sizes")

        @property
        def nbytes(self):
            raise NotImplementedError

    assert leading_of(Nested()) is None
    assert text_of(Nested()) == "Nested"
    with pytest.raises(OpaqueError):
        bytes_of(Nested())


def test_compressed_rows_do_not_have_the_bytes_of_a_dense_tensor():
    """As torch reports them."""
    rows = types.SimpleNamespace(layout="torch.sparse_csr", nbytes=256, shape=(8, 8))

    with pytest.raises(OpaqueError):
        bytes_of(rows)


def test_a_dtype_without_a_name_is_its_text():
    tensor = types.SimpleNamespace(shape=(2, 3), dtype="torch.bfloat16", nbytes=12)

    assert text_of(tensor) == "bfloat16 (2, 3)"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float64).reshape(3, 4),
        np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2],  # not contiguous
        np.arange(12, dtype=np.complex64).T,
        np.array(5, np.int8),
        np.zeros((0, 3), np.float32),
    ],
)
def test_copies_hold_the_bytes_of_the_array(array):
    copies = Copies()
    for _ in range(2):  # the second time into what the first has left
        copies.copy(array)

        pages = copies._pages
        found = b"" if pages is None else pages[: array.nbytes].tobytes()
        assert found == array.tobytes()


def test_other_leaves_are_copied_by_their_bytes():
    copies = Copies()
    for leaf, expected in ((b"12345", b"12345"), ("höhe", "höhe".encode())):
        copies.copy(leaf)
        assert copies._pages[: len(expected)].tobytes() == expected
    copies.copy([1, 2])  # numbers are not worth it
    copies.copy(np.array(["a", None], object))
    assert copies._pages[:5].tobytes() == "höhe".encode()


def test_a_huge_leaf_goes_through_the_pages_in_rounds():
    array = np.zeros(BUFFER_BYTES + 3, np.uint8)
    array[-3:] = 7, 8, 9
    copies = Copies()
    copies.copy(array)

    assert len(copies._pages) == BUFFER_BYTES
    assert copies._pages[:3].tolist() == [7, 8, 9]


def test_tensors_of_jax_are_read_without_a_copy():
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(6, dtype=jax.numpy.float32).reshape(2, 3)

    assert bytes_of(array) == 24
    assert leading_of(array) == 2
    assert text_of(array) == "float32 (2, 3)"
    assert bytes_view(array).tobytes() == np.arange(6, dtype=np.float32).tobytes()


def test_tensors_of_torch_are_read_without_a_copy():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)

    assert bytes_of(tensor) == 12
    assert leading_of(tensor) == 2
    assert text_of(tensor) == "bfloat16 (2, 3)"
    view = bytes_view(tensor)
    assert view.nbytes == 12
    tensor[0, 0] = 1
    assert view[1] == 0x3F  # the same memory
    assert bytes_of(torch.tensor(1.0)) == 4
    assert bytes_view(torch.tensor(1.0)).nbytes == 4
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(OpaqueError):
        bytes_of(sparse)
    assert "torch" in sys.modules
