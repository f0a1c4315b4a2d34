"""Tables of Arrow, pandas and polars: their columns, and the bytes of these.

    RecordBatch, Table, DataFrame --columns_of_table--> columns --> bytes, views

A column of text or of lists becomes Python objects if NumPy makes an array of it, which
takes longer than to read it: its bytes are looked at as Arrow lays them out.

Nothing is imported: an object's package has been.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Any: frameworks have no common type; attributes are checked at run time.
Table = Any
Column = Any
Views = list[NDArray[np.uint8]]


def package_of(element: object) -> str:
    """Returns the name of the top package that an object's class is defined in."""
    return type(element).__module__.partition(".")[0]


def is_arrow(element: object) -> bool:
    """Whether it is an object of Arrow."""
    return package_of(element) == "pyarrow"


def is_table(element: object) -> bool:
    """Whether it is a table of Arrow, pandas or polars, whose rows are samples."""
    if is_arrow(element):
        return hasattr(element, "column_names")
    return _is_polars_frame(element) or _is_pandas_frame(element)


def _is_pandas_frame(element: Any) -> bool:
    # Or of a class derived from it.
    return hasattr(element, "iloc") and getattr(element, "ndim", None) == 2


def _is_polars_frame(element: object) -> bool:
    return hasattr(element, "get_columns") and package_of(element) == "polars"


def columns_of_table(element: Table) -> dict[Any, Column]:
    """Returns the columns of a table by name, or by number if names occur twice."""
    if is_arrow(element):
        return dict(zip(element.column_names, element.columns, strict=True))
    if _is_polars_frame(element):
        return dict(zip(element.columns, element.get_columns(), strict=True))
    columns = [column for _, column in element.items()]
    names = element.columns if element.columns.is_unique else range(len(columns))
    return dict(zip(names, columns, strict=True))


def bytes_of_column(column: Column) -> int | None:
    """Returns the bytes of a column of polars; None of another object."""
    if package_of(column) != "polars" or not hasattr(column, "estimated_size"):
        return None
    # polars reports pointers for objects.
    return None if str(column.dtype) == "Object" else int(column.estimated_size())


def views_of_column(column: Column) -> Views | None:
    """Returns views of a column's memory; None if NumPy's array of it is one.

    What has no views is not copied: objects, and text that is not laid out by Arrow.
    """
    package = package_of(column)
    if package == "pyarrow":
        return list(_arrow_views(column))
    if package == "polars" and hasattr(column, "to_numpy"):
        return _polars_views(column)
    dtype = getattr(column, "dtype", None)  # a date of pandas, say, has none
    if package != "pandas" or dtype is None or isinstance(dtype, np.dtype):
        return None
    if getattr(dtype, "storage", "") == "pyarrow" or hasattr(dtype, "pyarrow_dtype"):
        return list(_arrow_views(column.array.__arrow_array__()))
    return []


def _polars_views(column: Column) -> Views:
    if not column.dtype.is_numeric():
        return []
    try:
        array: NDArray[Any] = column.to_numpy(allow_copy=False)
    except Exception:  # it has nulls, or several chunks
        return []
    return [array.view(np.uint8)]


def _arrow_views(column: Column) -> Iterator[NDArray[np.uint8]]:
    """Yields what an array of Arrow refers to: of a slice, its part of the buffers."""
    if hasattr(column, "chunks"):
        for chunk in column.chunks:
            yield from _arrow_views(chunk)
        return
    if not hasattr(column, "buffers"):  # a scalar
        return
    types, kind = sys.modules["pyarrow"].types, column.type
    start, stop = column.offset, column.offset + len(column)
    if types.is_primitive(kind):
        yield _part(column.buffers()[1], start * kind.bit_width, stop * kind.bit_width)
    elif types.is_string(kind) or types.is_binary(kind):
        yield from _text(column.buffers(), start, stop, np.int32)
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        yield from _text(column.buffers(), start, stop, np.int64)
    elif types.is_fixed_size_binary(kind):
        bits = 8 * kind.byte_width
        yield _part(column.buffers()[1], start * bits, stop * bits)
    elif types.is_dictionary(kind):
        yield from _arrow_views(column.indices)
    elif types.is_nested(kind) and hasattr(column, "flatten"):
        parts = column.flatten()
        for part in parts if isinstance(parts, list) else [parts]:
            yield from _arrow_views(part)
    elif isinstance(column, sys.modules["pyarrow"].ExtensionArray):
        yield from _arrow_views(column.storage)


def _part(buffer: Any, first_bit: int, last_bit: int) -> NDArray[np.uint8]:
    found = np.frombuffer(buffer or b"", np.uint8)
    return found[first_bit // 8 : -(-last_bit // 8)]


def _text(
    buffers: list[Any], start: int, stop: int, offset: type[np.signedinteger[Any]]
) -> Iterator[NDArray[np.uint8]]:
    """Yields the offsets and the characters of the rows from `start` to `stop`."""
    _, ends, characters = buffers
    if ends is None or start == stop:
        return
    places = np.frombuffer(ends, offset)[start : stop + 1]
    yield places.view(np.uint8)
    yield np.frombuffer(characters or b"", np.uint8)[places[0] : places[-1]]
