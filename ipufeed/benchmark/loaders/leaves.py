"""What an element of a loader holds: bytes, leading dimensions, copies.

An element is nested in dicts, lists, tuples and dataclasses; its leaves are arrays of any
framework (whatever has `nbytes` and `shape`: NumPy, Torch, JAX, TensorFlow), strings, and
numbers. A list of numbers is one leaf, as a row of Hugging Face's datasets holds it.
"""

from __future__ import annotations

import dataclasses
import mmap
import sys
from typing import Any

import numpy as np

NUMBERS = (int, float, bool)
NUMBER_BYTES = 8
# A larger leaf is copied in rounds through the same pages.
BUFFER_BYTES = 64 << 20
# Shapes that are remembered; ragged batches have many.
MOST_ALIKE = 64
_SKIPPED = frozenset([type(None)])


class OpaqueError(Exception):
    """A leaf of unknown size."""


def leaves_of(element: Any) -> list[Any]:
    """The leaves in order; None is none."""
    kind = type(element)
    if kind is dict:
        found: list[Any] = []
        for value in element.values():
            found += leaves_of(value)
        return found
    if kind is tuple or kind is list or isinstance(element, (tuple, list)):
        if element and type(element[0]) in NUMBERS and kind is list:
            return [element]
        found = []
        for value in element:
            found += leaves_of(value)
        return found
    if kind in _SKIPPED:
        return []
    if isinstance(element, dict) or is_mapping(element):
        return leaves_of(dict(element))
    if dataclasses.is_dataclass(element) and not hasattr(element, "nbytes"):
        return leaves_of(
            [getattr(element, field.name) for field in dataclasses.fields(element)]
        )
    return [element]


def is_mapping(element: Any) -> bool:
    """Whether it has names for its parts, as a BatchEncoding does."""
    return hasattr(element, "keys") and hasattr(element, "__getitem__")


def bytes_of(leaf: Any) -> int:
    """Its bytes in memory.

    Raises:
        OpaqueError: It is of no kind that has any.
    """
    try:
        size = getattr(leaf, "nbytes", None)
    except RuntimeError:  # of a sparse torch tensor
        raise OpaqueError(type(leaf).__name__) from None
    if type(size) is int:
        return size
    kind = type(leaf)
    if kind is bytes or kind is bytearray:
        return len(leaf)
    if kind is str:
        return len(leaf.encode(errors="surrogatepass"))
    if kind in NUMBERS:
        return NUMBER_BYTES
    if kind is list:
        return NUMBER_BYTES * len(leaf)
    try:
        if size is not None:
            return int(size)
        return int(np.prod(tuple(leaf.shape)) * np.dtype(leaf.dtype.name).itemsize)
    except Exception:  # not an array after all, or a sparse one
        raise OpaqueError(kind.__name__) from None


def leading_of(leaf: Any) -> int | None:
    """The first dimension; None of a scalar, a string or a number."""
    shape = getattr(leaf, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(leaf) if type(leaf) is list else None


def text_of(leaf: Any) -> str:
    """`float32 (32, 224, 224, 3)`, or the class of anything but an array."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        return type(leaf).__name__
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return f"{name} {tuple(int(size) for size in shape)}"


def spec_of(element: Any) -> Any:
    """The structure with the text of each leaf, ready for JSON."""
    if element is None:
        return "None"
    if isinstance(element, dict) or is_mapping(element):
        return {str(key): spec_of(value) for key, value in dict(element).items()}
    if hasattr(element, "_asdict"):
        return spec_of(element._asdict())
    if isinstance(element, (list, tuple)):
        if element and type(element[0]) in NUMBERS and type(element) is list:
            return f"list of {len(element)} {type(element[0]).__name__}"
        return [spec_of(value) for value in element]
    if dataclasses.is_dataclass(element) and not hasattr(element, "nbytes"):
        return {
            field.name: spec_of(getattr(element, field.name))
            for field in dataclasses.fields(element)
        }
    return text_of(element)


class Copies:
    """Copies leaves into a page-aligned buffer, as a transfer to a device would.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self._pages: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        # Batches are alike: the pages as an array of that shape and dtype.
        self._alike: dict[Any, np.ndarray[Any, Any]] = {}

    def copy(self, leaf: Any) -> None:
        """Reads all of its bytes once; a number is not worth it."""
        if type(leaf) is np.ndarray:
            alike = self._alike.get((leaf.shape, leaf.dtype))
            if alike is None:
                alike = self._like(leaf)
            if alike is not None:
                np.copyto(alike, leaf)
                return
        view = bytes_view(leaf)
        if view is None or not len(view):
            return
        pages = self._room(len(view))
        for start in range(0, len(view), len(pages)):
            part = view[start : start + len(pages)]
            pages[: len(part)] = part

    def _like(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        if array.dtype.hasobject or not 0 < array.nbytes <= BUFFER_BYTES:
            return None
        pages = self._room(array.nbytes)[: array.nbytes]
        if len(self._alike) == MOST_ALIKE:
            self._alike.clear()
        view: np.ndarray[Any, Any] = pages.view(array.dtype).reshape(array.shape)
        self._alike[array.shape, array.dtype] = view
        return view

    def _room(self, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        size = min(size, BUFFER_BYTES)
        if self._pages is None or len(self._pages) < size:
            self._alike.clear()
            self._pages = np.frombuffer(mmap.mmap(-1, size), np.uint8)
            self._pages[:] = 1  # the pages are there before the clock runs
        return self._pages


def bytes_view(leaf: Any) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Its bytes as NumPy sees them without a copy where it can; None for numbers."""
    kind = type(leaf)
    if kind is bytes or kind is bytearray:
        return np.frombuffer(leaf, np.uint8)
    if kind is str:
        return np.frombuffer(leaf.encode(errors="surrogatepass"), np.uint8)
    if kind in NUMBERS or kind is list:
        return None
    array: np.ndarray[Any, Any] | None = leaf if kind is np.ndarray else as_array(leaf)
    if array is None or array.dtype.hasobject:
        return None
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    flat: np.ndarray[Any, np.dtype[np.uint8]] = array.reshape(-1).view(np.uint8)
    return flat


def as_array(leaf: Any) -> np.ndarray[Any, Any] | None:
    """A view of another framework's array on the host; None of what has none."""
    try:
        detach = getattr(leaf, "detach", None)
        if detach is not None:  # a torch tensor, whose bfloat16 NumPy does not know
            flat = detach().cpu().reshape(-1)
            leaf = flat.view(sys.modules["torch"].uint8).numpy()
        found: np.ndarray[Any, Any] = np.asarray(leaf)
        return found
    except Exception:  # an object, a ragged or a sparse array
        return None
