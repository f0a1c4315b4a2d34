"""A loader's element as NumPy arrays of types that a feed carries.

arrays_of     any element, with its structure and the places of its strings
flat_reader   the elements that are like the first one, in microseconds
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ipufeed.errors import UnsupportedElementError
from ipufeed.sources.loaders.leaves import (
    Array,
    Element,
    Leaf,
    as_array,
    is_numbers,
    parts_of,
    text_of,
)
from ipufeed.tf_types import Nest

# A dtype that feeds do not carry -> the dtype in which its numbers are fed.
CARRIED = {
    "int64": "int32",
    "uint32": "int32",
    "uint64": "int32",
    "int16": "int32",
    "uint16": "int32",
    "float64": "float32",
    "float128": "float32",
    "bfloat16": "float32",
}


# Casts an array of numbers to a dtype.
Cast = Callable[[Array, "np.dtype[Any]"], Array]


def rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Casts; a number that the dtype does not hold becomes another one."""
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def held(array: Array, dtype: np.dtype[Any]) -> Array:
    """Casts; ValueError for a number that the dtype does not hold."""
    found = rounded(array, dtype)
    if array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        for value in (array.min(), array.max()):
            if not limits.min <= int(value) <= limits.max:
                raise _not_held(value, dtype)
    if array.dtype.kind == "f" and not np.isfinite(found).all():
        lost = np.isinf(found) & np.isfinite(array)
        if lost.any():
            raise _not_held(array[lost].flat[0], dtype)
    return found


def _not_held(value: object, dtype: np.dtype[Any]) -> ValueError:
    return ValueError(
        f"is fed as {dtype.name}, which does not hold {value}. Let the loader give "
        f"{'smaller ones, or floats' if dtype.kind == 'i' else 'smaller numbers'}."
    )


def arrays_of(
    element: Element,
    path: str,
    texts: list[str] | None = None,
    cast: Cast = rounded,
) -> Nest:
    """Returns the element with NumPy arrays as leaves, in a structure for tf.data.

    Args:
        element: The element.
        path: Its name, for messages.
        texts: Gets the places of what is left out: strings, which no device takes, and
            lists and the like of nothing else.
        cast: Casts the numbers of a dtype that feeds do not carry.

    Raises:
        UnsupportedElementError: Another leaf is not an array of real numbers.
    """
    found = _arrays_of(element, path, [] if texts is None else texts, cast)
    return () if found is None else found


def _arrays_of(
    element: Element, path: str, texts: list[str], cast: Cast
) -> Nest | None:
    """As arrays_of; None if nothing is left."""
    # To ask an array whether it has parts takes longer than to take it.
    parts = None if type(element) is np.ndarray else parts_of(element)
    own: list[str] = []
    kept: Nest
    if parts is not None:
        named: dict[str, Nest | None] = {}
        for key, value in parts.items():
            if value is None:
                continue
            if str(key) in named:
                raise UnsupportedElementError(
                    f"{path} has two keys with the text {str(key)!r}: a dataset has one of "
                    "both. Let the loader give them other names."
                )
            named[str(key)] = _arrays_of(value, f"{path}[{key!r}]", own, cast)
        kept = {key: each for key, each in named.items() if each is not None}
    elif isinstance(element, (list, tuple)) and not _is_one_array(element):
        items = [
            _arrays_of(value, f"{path}[{number}]", own, cast)
            for number, value in enumerate(element)
            if value is not None
        ]
        kept = tuple(each for each in items if each is not None)
    else:
        return _leaf_of(element, path, texts, cast)
    if own and not kept:
        texts.append(path)
        return None
    texts += own
    return kept


def _is_one_array(series: list[Any] | tuple[Any, ...]) -> bool:
    """Whether it is a list of numbers; in a tuple they may be of different kinds."""
    return isinstance(series, list) and is_numbers(series)


def _leaf_of(leaf: Leaf, path: str, texts: list[str], cast: Cast) -> Array | None:
    """Returns the array of a leaf; None for strings, whose place `texts` gets."""
    try:
        array = None if isinstance(leaf, (str, bytes)) else _as_numbers(leaf, cast)
    except ValueError as error:
        raise UnsupportedElementError(f"{path} {error}") from None
    if array is not None:
        return array
    if _is_text(leaf):
        texts.append(path)
        return None
    got = text_of(leaf)
    if hasattr(leaf, "layout"):  # a tensor of Torch: sparse, nested, without memory
        got += f" ({leaf.layout} on {leaf.device})"
    raise UnsupportedElementError(
        f"{path} must be an array of real numbers, got {got}, which the device "
        f"does not take{_reason_of(leaf)}. Let the loader give arrays of numbers."
    )


def _reason_of(leaf: Leaf) -> str:
    """Returns why a leaf is not an array, if its own conversion to one shows it."""
    if isinstance(leaf, np.ma.MaskedArray):
        return ": it has masked values"
    if not hasattr(leaf, "__array__"):
        return ""
    try:
        np.asarray(leaf)
    except Exception as error:
        return f" ({type(error).__name__}: {error})"
    return ""


def _is_text(leaf: Leaf) -> bool:
    """Whether a leaf is a string, or an array or a column of strings."""
    if isinstance(leaf, (str, bytes)):
        return True
    array = as_array(leaf)
    if array is None or array.dtype.kind in "UST":  # T: of any length
        return array is not None
    is_object = array.dtype.kind == "O" and array.size > 0
    return is_object and isinstance(array.flat[0], (str, bytes))


def _as_numbers(leaf: Leaf, cast: Cast) -> Array | None:
    """Returns the leaf as an array of a feed's type; None for strings and objects."""
    array = _of_torch(leaf) if hasattr(leaf, "detach") else as_array(leaf)
    if array is None or np.ma.is_masked(leaf):
        return None
    carried = _carried(array.dtype)
    if carried is None:
        return None
    return array if carried == array.dtype else cast(array, carried)


def _of_torch(leaf: Leaf) -> Array | None:
    """Returns a tensor of Torch as an array; None of a sparse or nested one."""
    try:
        tensor = leaf.detach().cpu()
        if hasattr(tensor, "resolve_neg"):  # a sign that is not in the memory yet
            tensor = tensor.resolve_conj().resolve_neg()
        try:
            return np.asarray(tensor.numpy())
        except TypeError:  # bfloat16, which NumPy does not know
            return np.asarray(tensor.float().numpy())
    except (TypeError, RuntimeError):
        return None


@functools.cache  # a dtype's name takes microseconds
def _carried(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Returns the dtype in which a feed carries numbers; None of what are not numbers."""
    if dtype.hasobject or dtype.kind not in "biufV":
        return None
    name = dtype.name
    carried = CARRIED.get(name)
    if carried is None and name.startswith("float8_"):
        carried = "float32"
    if carried is None and dtype.kind == "V":  # a structured one
        return None
    # In the byte order of the machine: the bytes are copied.
    return dtype.newbyteorder("=") if carried is None else np.dtype(carried)


# Appends the arrays of a part of an element; False if it is not like the first one's.
_Read = Callable[[Element, list[Array]], bool]


def flat_reader(
    first: Element, cast: Cast = rounded
) -> Callable[[Element], list[Array] | None]:
    """Returns a function that gives the arrays of an element, in tf.nest's order.

    It is made for elements like the first one, and for arrays of NumPy and Torch in dicts,
    lists and tuples it needs some microseconds. All others take the way of arrays_of.

    Args:
        first: The first element.
        cast: As of arrays_of.

    Returns:
        The function; it returns None for an element that is not of the first one's
        structure, dtypes and shapes, and raises as arrays_of does.
    """
    import tensorflow as tf

    nest = arrays_of(first, "element", cast=cast)
    forms, gaps = _forms_of(nest), _gaps_in(first)
    quick = _part_reader(first, nest, cast)

    def read(element: Element) -> list[Array] | None:
        found: list[Array] = []
        with contextlib.suppress(ValueError):  # below it is one that names the place
            if quick(element, found):
                return found
        nest = arrays_of(element, "element", cast=cast)
        if _forms_of(nest) != forms or _gaps_in(element) != gaps:
            return None
        flat: list[Array] = tf.nest.flatten(nest)
        return flat

    return read


def _part_reader(first: Element, nest: Nest, cast: Cast) -> _Read:
    """Returns the reader of a part; `nest` has the first one's arrays, None for none."""
    kind = type(first)
    if kind is np.ndarray and nest is not None:
        return _array_reader(first, cast)
    if hasattr(first, "detach") and nest is not None:
        return _tensor_reader(first, nest, cast)
    if kind is dict and isinstance(nest, dict) and len(nest) == len(first):
        keys = sorted(first, key=str)
        return _parts_reader(
            dict, keys, [_part_reader(first[key], nest[str(key)], cast) for key in keys]
        )
    if (
        kind in (tuple, list)
        and isinstance(nest, tuple)
        and len(nest) == len(first)
        and parts_of(first) is None
    ):
        pairs = zip(first, nest, strict=True)
        return _parts_reader(
            kind, range(len(first)), [_part_reader(*pair, cast) for pair in pairs]
        )
    return _any_reader(first, nest, cast)


def _array_reader(first: Array, cast: Cast) -> _Read:
    """Returns the reader of NumPy arrays of the first one's dtype and shape."""
    dtype, shape = first.dtype, first.shape
    carried = _carried(dtype)
    assert carried is not None  # the caller has its array

    def read(part: Element, found: list[Array]) -> bool:
        if type(part) is not np.ndarray or part.dtype != dtype or part.shape != shape:
            return False
        found.append(part if carried == dtype else cast(part, carried))
        return True

    return read


def _tensor_reader(first: Leaf, nest: Nest, cast: Cast) -> _Read:
    """Returns the reader of tensors of Torch that NumPy can read where they are."""
    kind = type(first)
    try:
        quick = _array_reader(first.numpy(), cast)
    except (TypeError, RuntimeError):  # bfloat16; one with a gradient, or of a GPU
        return _any_reader(first, nest, cast)

    def read(part: Element, found: list[Array]) -> bool:
        if type(part) is not kind:
            return False
        try:
            return quick(part.numpy(), found)
        except (TypeError, RuntimeError):
            return False

    return read


def _parts_reader(kind: Any, keys: Sequence[Any], readers: list[_Read]) -> _Read:
    """Returns the reader of dicts, lists or tuples with these keys alone."""
    parts = list(zip(keys, readers, strict=True))

    def read(part: Element, found: list[Array]) -> bool:
        if type(part) is not kind or len(part) != len(parts):
            return False
        try:
            return all(reads(part[key], found) for key, reads in parts)
        except KeyError:
            return False

    return read


def _any_reader(first: Element, nest: Nest | None, cast: Cast) -> _Read:
    """Returns the reader of parts of any kind; `nest` has the first one's arrays."""
    import tensorflow as tf

    forms = None if nest is None else _forms_of(nest)
    gaps = _gaps_in(first)

    def read(part: Element, found: list[Array]) -> bool:
        if _gaps_in(part) != gaps:
            return False
        arrays = _arrays_of(part, "element", [], cast)
        if arrays is None or forms is None:
            return arrays is None and forms is None
        if _forms_of(arrays) != forms:
            return False
        if isinstance(arrays, np.ndarray):
            found.append(arrays)
        else:
            found += tf.nest.flatten(arrays)
        return True

    return read


def _gaps_in(element: Element) -> list[object]:
    """Returns the places of None in lists and tuples whose later items move up."""
    if isinstance(element, (list, tuple)) and parts_of(element) is None:
        if is_numbers(element):
            return []
        items: Iterable[tuple[object, Element]] = enumerate(element)
        given = [k for k, each in enumerate(element) if each is not None]
        own: list[object] = [k for k in range(max(given, default=0)) if k not in given]
    else:
        if type(element) is np.ndarray:
            return []
        items, own = (parts_of(element) or {}).items(), []
    return own + [(k, gaps) for k, each in items if (gaps := _gaps_in(each))]


def _forms_of(arrays: Nest) -> object:
    """Returns the dtypes and shapes in a structure, in the same structure."""
    if isinstance(arrays, dict):
        return {key: _forms_of(each) for key, each in arrays.items()}
    if isinstance(arrays, tuple):
        return [_forms_of(each) for each in arrays]
    return arrays.dtype, arrays.shape
