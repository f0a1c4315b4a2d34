"""The leaves of a loader's element: bytes, leading dimensions, copies.

An element is nested in dicts, lists, tuples, classes with fields (dataclasses, attrs,
pydantic, msgspec), graphs of PyG, and tables (tables.py); its leaves are arrays of any
framework (objects with `nbytes` and `shape`: NumPy, Torch, JAX, TensorFlow), columns of a
table, images of PIL, strings, and numbers. A list of numbers is one leaf, as in a row of
Hugging Face's datasets.
"""

from __future__ import annotations

import array
import dataclasses
import math
import mmap
import sys
import types
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipufeed.sources.loaders.batch_steps import has_class
from ipufeed.sources.loaders.tables import (
    bytes_of_column,
    columns_of_table,
    is_arrow,
    is_table,
    package_of,
    views_of_column,
)

# Any: frameworks have no common type; attributes are checked at run time.
Leaf = Any
Element = Any  # a nest of leaves
Array = NDArray[Any]

NUMBERS = (int, float, bool)
NUMBER_BYTES = 8
# Bytes of a band's pixel in modes of PIL whose pixels are not bytes.
PIXEL_BYTES = {"I": 4, "F": 4} | dict.fromkeys(("I;16", "I;16L", "I;16B", "I;16N"), 2)
# A row with an array in it is shorter than this; of a longer list the ends decide, since
# to look at all of a text's tokens would take longer than the rest of the loop.
MOST_LOOKED_AT = 16
# A larger leaf is copied in rounds through the same pages.
BUFFER_BYTES = 64 << 20
# Classes of arrays, whose objects are leaves: to ask every array for all that a table
# or a mapping has takes several microseconds, and more of an array of JAX that is new.
# With whether shape and dtype give the bytes of all that are not of objects.
_array_kinds: dict[type, bool] = {np.ndarray: True}
# Whether a class is one of graphs: to ask it for its bases takes a microsecond.
_graph_kinds: dict[type, bool] = {}
# The most views that are kept by shape and dtype: ragged batches have many shapes.
MOST_VIEWS = 64


class OpaqueError(Exception):
    """A leaf of unknown size."""


def leaves_of(element: Element) -> list[Leaf]:
    """Returns the leaves in order, without those that are None."""
    kind = type(element)
    if kind in _array_kinds or kind is str or kind in NUMBERS:
        return [element]
    parts: Iterable[Element] | None = None
    if kind is dict:
        parts = element.values()
    elif kind is tuple or kind is list or isinstance(element, (tuple, list, deque)):
        if kind is list and is_numbers(element):
            return [element]
        parts = element
    if parts is not None:
        found: list[Leaf] = []
        for part in parts:
            if type(part) in _array_kinds:
                found.append(part)
            else:
                found += leaves_of(part)
        return found
    if element is None:
        return []
    if is_table(element):
        return list(columns_of_table(element).values())
    named = parts_of(element)
    if named is not None:
        return leaves_of(named)
    if hasattr(kind, "nbytes") and hasattr(kind, "shape"):
        _array_kinds[kind] = package_of(element) in ("numpy", "jaxlib")
    return [element]


def is_numbers(element: list[Any] | tuple[Any, ...] | deque[Any]) -> bool:
    """Whether it is a list or a tuple of numbers alone, and not empty."""
    if isinstance(element, deque) or not element or type(element[-1]) not in NUMBERS:
        return False
    return all(type(each) in NUMBERS for each in element[:MOST_LOOKED_AT])


def parts_of(element: Element) -> dict[Any, Any] | None:
    """Returns the parts by name; None of an element without names.

    Names are those of a dict, a BatchEncoding, a table, a SimpleNamespace, a graph of PyG,
    and the fields of a class without `nbytes`.
    """
    if isinstance(element, dict):
        return dict(element)
    if is_table(element):
        return columns_of_table(element)
    if type(element) is types.SimpleNamespace:
        return dict(vars(element))
    # Before the items: those of a graph with nodes of several types are empty.
    if is_graph(element):
        found: dict[Any, Any] = element.to_dict()
        return found
    # Before the items: a tensorclass has keys, too, but no items.
    names = _fields_of(type(element))
    if names is not None and not hasattr(element, "nbytes"):
        return {
            name: getattr(element, name) for name in names if hasattr(element, name)
        }
    return _items_of(element) if _is_mapping(element) else None


def _items_of(element: Element) -> dict[Any, Any] | None:
    """Returns a mapping's items; None of one that cannot give them all.

    Such as a stack of TensorDicts whose shapes differ.
    """
    try:
        return dict(element)
    except Exception:  # the element's own
        return None


def is_graph(element: Element) -> bool:
    """Whether it is a graph of PyG, or a batch of them."""
    kind = type(element)
    known = _graph_kinds.get(kind)
    if known is None:
        known = _graph_kinds[kind] = has_class(element, "torch_geometric", "BaseData")
    return known


def _fields_of(kind: type) -> list[str] | None:
    """Returns the names of the fields of a class, else None.

    Of a dataclass or a class of attrs, pydantic or msgspec.
    """
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is not None:
        return [field.name for field in fields]
    for name in ("__pydantic_fields__", "__struct_fields__"):
        fields = getattr(kind, name, None)
        if isinstance(fields, (Mapping, tuple)):
            return list(fields)
    return None


def _is_mapping(element: Element) -> bool:
    """Whether it has keys for its parts; a series of pandas has them for its numbers."""
    return (
        hasattr(element, "keys")
        and hasattr(element, "__getitem__")
        and package_of(element) not in ("pandas", "scipy")
    )


def extent_of(leaf: Leaf) -> tuple[int | None, int | None]:
    """Returns the leaf's bytes, None if unknown, and its first dimension, if it has one."""
    if _array_kinds.get(type(leaf)):
        # Not `nbytes`, which JAX computes in Python from the same two.
        shape, dtype = leaf.shape, leaf.dtype
        if not dtype.hasobject:
            return math.prod(shape) * dtype.itemsize, shape[0] if shape else None
    try:
        return bytes_of(leaf), leading_of(leaf)
    except OpaqueError:
        return None, leading_of(leaf)


def bytes_of(leaf: Leaf) -> int:
    """Returns the leaf's bytes in memory.

    Raises:
        OpaqueError: Their number cannot be determined.
    """
    kind = type(leaf)
    try:
        size = getattr(leaf, "nbytes", None)
    except Exception:  # of a sparse torch tensor
        raise OpaqueError(kind.__name__) from None
    # NumPy and pandas report pointers for objects, and torch a dense tensor for
    # compressed rows.
    dtype = getattr(leaf, "dtype", None)
    pointers = getattr(dtype, "hasobject", False) or (
        kind.__name__ == "Series" and getattr(dtype, "storage", None) == "python"
    )
    if pointers and kind is np.ndarray:
        return _bytes_of_texts(leaf)
    if pointers or "sparse" in str(getattr(leaf, "layout", "")):
        raise OpaqueError(kind.__name__)
    if type(size) is int:
        return size
    if kind is bytes or kind is bytearray:
        return len(leaf)
    if kind is str:
        return len(leaf.encode(errors="surrogatepass"))
    if kind in NUMBERS:
        return NUMBER_BYTES
    if kind is list:
        return NUMBER_BYTES * len(leaf)
    if kind is array.array:
        return int(leaf.itemsize * len(leaf))
    in_column = bytes_of_column(leaf)
    if in_column is not None:
        return in_column
    if _is_pil_image(leaf):
        pixels = leaf.width * leaf.height * len(leaf.getbands())
        return int(pixels * PIXEL_BYTES.get(leaf.mode, 1))
    try:
        if size is not None:
            return int(size)
        if kind.__name__ == "RaggedTensor":
            parts = (leaf.flat_values, *leaf.nested_row_splits)
            return sum(map(bytes_of, parts))
        if getattr(dtype, "name", None) == "string":  # of TensorFlow
            return _bytes_of_texts(np.asarray(leaf))
        if not hasattr(leaf, "__array__"):  # a sparse one of TensorFlow or SciPy
            raise OpaqueError(kind.__name__)
        return int(np.prod(tuple(leaf.shape)) * np.dtype(leaf.dtype.name).itemsize)
    except Exception:  # not an array, or a sparse one
        raise OpaqueError(kind.__name__) from None


def _bytes_of_texts(texts: Array) -> int:
    """Returns the bytes of an array of texts.

    Raises:
        OpaqueError: It has other objects.
    """
    found = texts.ravel().tolist()
    if not all(type(each) in (str, bytes) for each in found):
        raise OpaqueError(type(texts).__name__)
    return sum(map(bytes_of, found))


def _is_pil_image(leaf: Leaf) -> bool:
    """Whether it is an image of PIL, which may not be decoded yet."""
    return package_of(leaf) == "PIL" and hasattr(leaf, "getbands")


def leading_of(leaf: Leaf) -> int | None:
    """Returns the first dimension; None for a scalar, a string or a number."""
    shape = shape_of(leaf)
    if shape is not None:
        return shape[0] if shape else None
    return len(leaf) if type(leaf) is list else None


def shape_of(leaf: Leaf) -> tuple[int | None, ...] | None:
    """Returns its shape; None: it has none, or one of unknown rank.

    Dimensions may be unknown: those of a ragged tensor, or of a sparse one in a graph.
    """
    if is_arrow(leaf) and hasattr(leaf, "__len__"):
        return (len(leaf),)
    try:
        return tuple(None if size is None else int(size) for size in leaf.shape)
    except Exception:  # not an array, or a nested torch tensor
        if getattr(leaf, "is_nested", False) is not True:
            return None
        return (int(leaf.size(0)), *(None,) * (leaf.dim() - 1))


def text_of(leaf: Leaf) -> str:
    """Returns `float32 (32, 224, 224, 3)`, or the class if it is not an array."""
    shape = shape_of(leaf)
    dtype = getattr(leaf, "type" if is_arrow(leaf) else "dtype", None)
    if shape is None or dtype is None:
        return type(leaf).__name__
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return f"{name} {shape}"


def spec_of(element: Element) -> object:
    """Returns the structure with the text of each leaf, for the JSON."""
    if element is None:
        return "None"
    parts = parts_of(element)
    if parts is not None:
        return {str(key): spec_of(value) for key, value in parts.items()}
    if hasattr(element, "_asdict"):
        return spec_of(element._asdict())
    if isinstance(element, (list, tuple, deque)):
        if type(element) is list and is_numbers(element):
            return f"list of {len(element)} {type(element[0]).__name__}"
        return [spec_of(value) for value in element]
    return text_of(element)


class Copies:
    """Copies leaves into a page-aligned buffer, as a transfer to a device would.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self._pages: NDArray[np.uint8] | None = None
        # The pages as an array of a shape and dtype: those of most batches are the same.
        self._views: dict[tuple[tuple[int, ...], np.dtype[Any]], Array] = {}

    def copy(self, leaf: Leaf) -> None:
        """Copies all bytes of an array or a string; a number is not worth it."""
        if type(leaf) is np.ndarray:
            view = self._views.get((leaf.shape, leaf.dtype))
            if view is None:
                view = self._view_for(leaf)
            if view is not None:
                np.copyto(view, leaf)
                return
        for source in views_of(leaf):
            if not len(source):
                continue
            pages = self._at_least(len(source))
            for start in range(0, len(source), len(pages)):
                part = source[start : start + len(pages)]
                pages[: len(part)] = part

    def _view_for(self, array: Array) -> Array | None:
        if array.dtype.hasobject or not 0 < array.nbytes <= BUFFER_BYTES:
            return None
        pages = self._at_least(array.nbytes)[: array.nbytes]
        if len(self._views) == MOST_VIEWS:
            self._views.clear()
        view: Array = pages.view(array.dtype).reshape(array.shape)
        self._views[array.shape, array.dtype] = view
        return view

    def _at_least(self, size: int) -> NDArray[np.uint8]:
        """Returns the pages, of at least `size` bytes or BUFFER_BYTES."""
        size = min(size, BUFFER_BYTES)
        if self._pages is None or len(self._pages) < size:
            self._views.clear()
            self._pages = np.frombuffer(mmap.mmap(-1, size), np.uint8)
            self._pages[:] = 1  # the pages are mapped before the time is taken
        return self._pages


def views_of(leaf: Leaf) -> list[NDArray[np.uint8]]:
    """Returns the leaf's bytes, in several arrays if it is a column of text."""
    found = views_of_column(leaf)
    if found is not None:
        return found
    view = bytes_view(leaf)
    return [] if view is None else [view]


def bytes_view(leaf: Leaf) -> NDArray[np.uint8] | None:
    """Returns the leaf's bytes, without a copy if NumPy can.

    None for numbers and images of PIL.
    """
    kind = type(leaf)
    if kind is bytes or kind is bytearray:
        return np.frombuffer(leaf, np.uint8)
    if kind is str:
        return np.frombuffer(leaf.encode(errors="surrogatepass"), np.uint8)
    # To make an array of an image copies it, and may have to decode it first.
    if kind in NUMBERS or kind is list or _is_pil_image(leaf):
        return None
    array: Array | None = leaf if kind is np.ndarray else as_array(leaf)
    if array is None or array.dtype.hasobject:
        return None
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    flat: NDArray[np.uint8] = array.reshape(-1).view(np.uint8)
    return flat


def as_array(leaf: Leaf) -> Array | None:
    """Returns a view of another framework's array on the host, or None."""
    try:
        detach = getattr(leaf, "detach", None)
        if detach is not None:  # a torch tensor, whose bfloat16 NumPy does not know
            flat = detach().cpu().reshape(-1)
            leaf = flat.view(sys.modules["torch"].uint8).numpy()
        found: Array = np.asarray(leaf)
        return found
    except Exception:  # an object, a ragged or a sparse array
        return None
