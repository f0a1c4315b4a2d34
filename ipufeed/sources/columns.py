"""Converts columns of Arrow into tensors, without a copy where that is possible.

    bool, int8..int64, uint8..uint64, float16, float32, float64   the same, [rows]
    date, time, timestamp, duration    int32 or int64 in the column's own unit
    string, binary (large, view, fixed size)    tf.string
    dictionary    its values
    fixed_size_list, nested    [rows, n, ...] of its values

Numbers without nulls are not copied: NumPy wraps Arrow's buffer, and TensorFlow NumPy's if
it begins on a 64-byte boundary. Text is passed as one string and its offsets, and cut up by
TensorFlow (`text_tensor`), so that no Python object is made for a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ipufeed.errors import SourceError
from ipufeed.tf_types import Tensor

NULLS = ("error", "drop", "zero")


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """A column and its tensor.

    Attributes:
        name: As in the file.
        type: Arrow's type.
        dtype: Name of the tensor's dtype.
        inner: The tensor's shape without the rows.
    """

    name: str
    type: pa.DataType
    dtype: str
    inner: tuple[int, ...]

    @property
    def is_text(self) -> bool:
        """Whether it is passed as one string with offsets."""
        return self.dtype == "string"


def column_of(field: pa.Field, path: str) -> Column:
    """Returns the column of a field of a schema.

    Raises:
        SourceError: There is no dense tensor for its type.
    """
    inner: list[int] = []
    kind = field.type
    while pa.types.is_fixed_size_list(kind):
        inner.append(kind.list_size)
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    dtype = _dtype_of(kind)
    if dtype is None or (inner and dtype == "string"):
        raise SourceError(
            f"{path}: column `{field.name}` is of type {field.type}, for which there is "
            f"no dense tensor. {_advice_for(field.type)}"
        )
    return Column(field.name, field.type, dtype, tuple(inner))


def _dtype_of(kind: pa.DataType) -> str | None:
    """Returns the tensor's dtype for a type that is not a list, or None."""
    types = pa.types
    if types.is_null(kind):
        return None
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return str(np.dtype(kind.to_pandas_dtype()).name)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return f"int{kind.bit_width}"
    if any(
        check(kind)
        for check in (
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_string_view,
            types.is_binary_view,
            types.is_fixed_size_binary,
        )
    ) and not types.is_decimal(kind):
        return "string"
    return None


def _advice_for(kind: pa.DataType) -> str:
    """Returns what to do about a type without a tensor."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return (
            "Write it as a fixed_size_list if all its lists are equally long, or leave it "
            "out with `columns`."
        )
    if types.is_decimal(kind):
        return "Write it as float64 or int64, or leave it out with `columns`."
    if types.is_struct(kind):
        return "Make columns of its fields (Table.flatten), or leave it out with `columns`."
    return "Leave it out with `columns`."


def choose_columns(
    schema: pa.Schema, names: Sequence[str] | None, path: str
) -> list[Column]:
    """Returns the columns with the given names, in that order; None: all.

    Raises:
        TypeError: `names` is not a sequence of texts.
        SourceError: A column does not exist, exists twice, or has no tensor.
    """
    given = schema.names if names is None else names
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    names = list(given) if is_list else []
    if not is_list or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"`columns` must be a list of names or None, got {given!r}: for one column "
            "give a list of one."
        )
    if not names:
        raise SourceError(
            f"`columns` must name at least one column of {path}, got none."
        )
    for name in names:
        found = schema.names.count(name)
        if found == 0:
            raise SourceError(
                f"{path} has no column `{name}`. It has: {', '.join(schema.names)}."
            )
        if found > 1 or names.count(name) > 1:
            where = path if found > 1 else "`columns`"
            raise SourceError(f"column `{name}` is twice in {where}: rename one.")
    return [column_of(schema.field(name), path) for name in names]


def choose_same_columns(
    schemas: list[tuple[str, pa.Schema]], wanted: Sequence[str] | None
) -> list[Column]:
    """Returns the columns of several files, given as (path, schema).

    Raises:
        SourceError: They differ between files, or choose_columns() refuses one.
    """
    (first, schema), *others = schemas
    chosen = choose_columns(schema, wanted, first)
    for path, schema in others:
        found = choose_columns(schema, wanted, path)
        if found != chosen:
            raise SourceError(_difference(first, chosen, path, found))
    return chosen


def _difference(
    first: str, chosen: list[Column], path: str, found: list[Column]
) -> str:
    for one, other in zip(chosen, found, strict=False):
        if one != other:
            return (
                f"{path} has column `{other.name}` of type {other.type}, and {first} has "
                f"`{one.name}` of type {one.type}: files of one dataset must agree. Name "
                "the columns that they share with `columns`, or read them apart."
            )
    return (
        f"{path} has {len(found)} columns, and {first} has {len(chosen)}: files of one "
        "dataset must agree. Name the columns that they share with `columns`."
    )


def to_arrays(
    columns: list[Column],
    data: list[pa.Array | pa.ChunkedArray],
    nulls: str,
    where: str,
) -> list[Array]:
    """Returns the arrays for TensorFlow: two for text (string, offsets), else one.

    Args:
        columns: The columns.
        data: An Arrow array, or chunked array, for each.
        nulls: `error`, `drop` (rows that hold one) or `zero` (0, False, empty).
        where: File and row group, for messages.

    Raises:
        SourceError: There are nulls, and `nulls` is `error`.
    """
    arrays = [_one_array(array) for array in data]
    valid = [_valid_rows(array) for array in arrays]
    if nulls == "error":
        for column, mask in zip(columns, valid, strict=True):
            if mask is not None:
                raise SourceError(null_message(column.name, int((~mask).sum()), where))
    elif nulls == "drop" and any(mask is not None for mask in valid):
        keep = pa.array(np.logical_and.reduce([m for m in valid if m is not None]))
        arrays = [array.filter(keep) for array in arrays]
    out: list[Array] = []
    for column, array in zip(columns, arrays, strict=True):
        if column.is_text:
            out += _text_arrays(array)
        else:
            flat = _numbers(array, column.dtype)
            out.append(flat.reshape(len(array), *column.inner))
    return out


def null_message(column: str, count: int | str, where: str) -> str:
    """Returns the message of an error about nulls."""
    return (
        f"{where}: column `{column}` has {count} rows with nulls, and a dense tensor has "
        "none. Give nulls='drop' to leave out these rows, nulls='zero' to read 0, False "
        "or an empty string, or leave the column out with `columns`."
    )


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a chunked array as one array, a copy if it has several chunks.

    Dictionaries are replaced by their values.
    """
    if isinstance(array, pa.ChunkedArray):
        if pa.types.is_string(array.type):
            array = array.cast(pa.large_string())  # the chunks may exceed 2 GiB
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _valid_rows(array: pa.Array) -> Array | None:
    """Returns bool [rows], False for rows with a null at any depth; None without nulls."""
    mask = None
    if array.null_count:
        mask = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(array.type) and array.type.list_size:
        inner = _valid_rows(_values_of(array))
        if inner is not None:
            rows = inner.reshape(len(array), -1).all(axis=1)
            # A null row counts once, whatever its list holds.
            mask = rows if mask is None else mask & rows
    if mask is None or bool(mask.all()):
        return None
    return np.asarray(mask)


def _values_of(lists: pa.Array) -> pa.Array:
    """Returns the values of lists, with those of null rows, so that none moves."""
    size = lists.type.list_size
    return lists.values.slice(lists.offset * size, len(lists) * size)


def _numbers(array: pa.Array, dtype: str) -> Array:
    """Returns a flat view of numbers; a copy with 0 for nulls, or if they are bits."""
    if pa.types.is_fixed_size_list(array.type):
        flat = _numbers(_values_of(array), dtype)
        if array.null_count:
            flat = flat.copy()
            missing = array.is_null().to_numpy(zero_copy_only=False)
            flat.reshape(len(array), -1)[missing] = 0
        return flat
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if dtype == "int32" else pa.int64())
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype)


def _text_arrays(array: pa.Array) -> list[Array]:
    """Returns the text as one string, and the offsets of its rows: int64 [rows + 1].

    The string is an object, since NumPy removes NULs at the end of its own bytes type.
    """
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    if pa.types.is_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    array = array.cast(pa.large_binary())
    if array.null_count:
        array = pc.fill_null(array, b"")
    _, offsets, data = array.buffers()
    if not len(array):
        return [np.array(b"", object), np.zeros(1, np.int64)]
    ends = np.frombuffer(offsets, np.int64)[
        array.offset : array.offset + len(array) + 1
    ]
    first, last = int(ends[0]), int(ends[-1])
    text = b"" if data is None else data.slice(first, last - first).to_pybytes()
    return [np.array(text, object), ends - first if first else ends]


def text_tensor(text: Tensor, ends: Tensor) -> Tensor:
    """Returns tf.string [rows] of one string and its offsets; runs without Python."""
    import tensorflow as tf

    return tf.strings.substr(text, ends[:-1], ends[1:] - ends[:-1])
