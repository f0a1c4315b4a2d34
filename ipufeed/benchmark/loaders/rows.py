"""The samples of a loader's element: the rows that its columns agree on.

    {"image": (32, 3, 64, 64), "text": 32 strings}      each column has 32
    ((8 images), [8 dicts of boxes])                    lists of samples: 8
    [8 images of (3, 64, 64)], batch_size=8             8, not their 3 channels
    (50 steps, 8, 16), batch_size=8                     8, as pad_sequence() pads
    a table of one row, its columns lists of 8          8, as Hugging Face batches
    [8 images], made by aggregate(8) of SPDL            8
    [8 dicts of the same keys]                          8, but 2 of them are columns
    a batch of 8 graphs of PyG                          8

Only a loader that states its batch size, or collects samples in lists, decides between a
list of columns and a list of samples: the part of the first element that has this size is
counted in all elements.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from ipufeed.sources.loaders.kinds import Kind
from ipufeed.sources.loaders.leaves import (
    NUMBERS,
    Element,
    is_graph,
    is_numbers,
    leading_of,
    parts_of,
    shape_of,
)
from ipufeed.sources.loaders.tables import columns_of_table, is_table

LEADING = "the leading dimension"
# The keys that lead to a part of an element.
Path = tuple[Any, ...]
# The possible numbers of rows, the likeliest first; none of a scalar.
Column = list[int]
SCALARS = (*NUMBERS, str, bytes, bytearray, type(None))
SERIES = (list, tuple, deque)
# A longer list is one of samples, and its ends show of which.
MOST_COMPARED = 64


def rows_of(kind: Kind) -> Rows:
    """Returns what counts the samples of the elements of a kind of loader."""
    return Rows(kind.size, kind.batch is not None, kind.in_lists, kind.collects)


class Rows:
    """Counts the rows of the elements of one loader.

    Args:
        size: Its batch size; None if unknown.
        batches: Whether it is known to batch, so that scalars are not columns.
        in_lists: Whether a table of one row is a batch, in the lists of its columns.
        collects: Whether an element that is a list is one of samples.

    Threads: one at a time.
    """

    def __init__(
        self,
        size: int | None = None,
        batches: bool = False,
        in_lists: bool = False,
        collects: bool = False,
    ) -> None:
        self._size = size
        self._batches = batches
        self._in_lists = in_lists
        self._collects = collects
        self._looks = True  # at the first element, for a list of samples
        self._path: Path | None = None
        self._axis = 0  # 1: times come before samples
        self._of_lists = self._of_items = False

    @property
    def searches(self) -> bool:
        """Whether the dimension that all leaves have does not decide."""
        known = self._in_lists or self._collects or self._looks
        return known or self._size is not None or self._path is not None

    @property
    def where(self) -> str:
        """Returns what was counted, as text."""
        if self._path is not None and self._axis:
            return "the second dimension"
        if self._of_lists:
            return "the lists in the row of a table"
        if self._of_items:
            return "the length of the list"
        return LEADING

    @property
    def is_shown(self) -> bool:
        """Whether the elements themselves show that they are batches."""
        return self._of_lists or self._of_items

    def of(self, element: Element, leading: int | None) -> int | None:
        """Returns the rows of an element, None if its columns disagree.

        Args:
            element: Any element of the loader.
            leading: The leading dimension that all of its leaves have; None if they
                differ.
        """
        if self._looks:
            self._looks = False
            self._collects |= self._size is None and _are_samples(element)
        if self._size is not None:  # the first element
            size, self._size = self._size, None
            if leading != size:
                self._path = _path_to(element, size)
                if self._path is None:
                    self._path, self._axis = _path_to(element, size, 1), 1
        if self._path is not None:
            found = _at(element, self._path, self._axis)
            if found is not None:
                return found
        if self._collects and type(element) is list:
            self._of_items = True
            return len(element)
        if self._in_lists and is_table(element) and len(element) == 1:
            length = _length_of_lists(element)
            if length is not None or self._batches:
                self._of_lists = True
                return length
        # The first element decides: others need not be looked at.
        self._collects = self._of_items
        self._in_lists = self._of_lists or (self._batches and self._in_lists)
        if leading is not None:
            return leading
        return _agreed(columns_of(element, self._batches), self._batches)


def _are_samples(element: Element) -> bool:
    """Whether an element is a list of samples: dicts with the same keys.

    Two of them may also be two views of one batch, as of contrastive learning.
    """
    if type(element) is not list or len(element) < 3:
        return False
    if not all(type(each) is dict for each in element):
        return False
    return len({frozenset(each) for each in element[:MOST_COMPARED]}) == 1


def _agreed(columns: list[Column], batches: bool) -> int | None:
    """Returns the first of the numbers of rows that all columns may have, or None."""
    found = [each for each in columns if each] if batches else columns
    if not found:
        return None
    return next((each for each in found[0] if all(each in of for of in found)), None)


def columns_of(element: Element, batches: bool = False) -> list[Column]:
    """Returns the columns of an element.

    Args:
        element: The element; if it is a list, it is one of columns.
        batches: Whether tuples of scalars are columns, too, as `zip(*samples)` makes them.
    """
    if element is None:
        return []
    if is_table(element):
        return [[len(element)]]
    packed = _packed(element)
    if packed is not None:
        return [[packed]]
    if isinstance(element, SERIES) and not is_numbers(element):
        parts = _named(element)
        if parts is None:
            column = partial(_column, batches=batches)
            return [found for each in element for found in column(each)]
    else:
        parts = parts_of(element)
    if parts is None:
        leading = leading_of(element)
        return [[] if leading is None else [leading]]
    return [found for each in parts.values() for found in _column(each, batches)]


def _column(part: Element, batches: bool) -> list[Column]:
    """Returns the columns of a component, which may be a list of samples."""
    if not isinstance(part, SERIES) or hasattr(part, "_asdict"):
        return columns_of(part, batches)
    if not part:
        return [[0]]
    if isinstance(part, tuple) and all(type(each) in SCALARS for each in part):
        return [[len(part)]] if batches else [[] for _ in part]
    if is_numbers(part):
        return [[len(part)]]
    if len(part) > MOST_COMPARED or all(type(each) in SCALARS for each in part):
        return [[len(part)]]
    inner = _agreed(columns_of(part, batches), batches)
    # Parts of several classes are the fields of one sample.
    length = [len(part)] if len({*map(type, part)}) == 1 else []
    return [length if inner is None else [inner, *length]]


def _length_of_lists(table: Element) -> int | None:
    """Returns the length of the lists in the first row of a table; None if they differ."""
    lengths = set()
    for column in columns_of_table(table).values():
        cell = column.iloc[0] if hasattr(column, "iloc") else column[0]
        lengths.add(len(cell) if hasattr(type(cell), "__len__") else None)
    return lengths.pop() if len(lengths) == 1 else None


def _path_to(element: Element, size: int, axis: int = 0) -> Path | None:
    """Returns the path to the outermost part with `size` rows, or None.

    A list of that length is one of samples, unless all of its parts have that many rows.
    Rows are counted along the `axis` of arrays; of other parts along the first one alone.
    """
    waiting: deque[tuple[Path, Element]] = deque([((), element)])
    while waiting:
        path, part = waiting.popleft()
        if isinstance(part, SERIES) and not hasattr(part, "_asdict"):
            alike = _agreed(columns_of(part), False) == size
            if axis == 0 and len(part) == size and not alike:
                return path
            if not is_numbers(part) and len(part) <= MOST_COMPARED:
                waiting += [((*path, key), each) for key, each in enumerate(part)]
            continue
        whole = is_table(part) or _packed(part) is not None
        parts = None if whole else _named(part)
        if parts is not None:
            waiting += [((*path, key), each) for key, each in parts.items()]
        elif _rows(part, axis) == size:
            return path
    return None


def _at(element: Element, path: Path, axis: int) -> int | None:
    """Returns the rows of the part at `path`; None if there is none."""
    try:
        for key in path:
            parts = _named(element)
            element = element[key] if parts is None else parts[key]
    except (LookupError, TypeError):
        return None
    return _rows(element, axis)


def _named(element: Element) -> dict[Any, Any] | None:
    if hasattr(element, "_asdict"):
        found: dict[Any, Any] = element._asdict()
        return found
    return parts_of(element)


def _packed(part: Element) -> int | None:
    """Returns the samples in what has parts of the lengths of other things, or None.

    In a PackedSequence of torch these are the sequences that have a first step, in a batch
    of PyG its graphs, or the nodes whose neighbours it holds.
    """
    if type(part).__name__ == "PackedSequence":
        return int(part.batch_sizes[0])
    if is_graph(part):
        for name in ("num_graphs", "batch_size"):
            number = getattr(part, name, None)
            if isinstance(number, int):
                return number
    return None


def _rows(part: Element, axis: int) -> int | None:
    packed = None if axis else _packed(part)
    if packed is not None:
        return packed
    if axis:
        shape = shape_of(part)
        return shape[axis] if shape is not None and len(shape) > axis else None
    if isinstance(part, SERIES) or is_table(part):
        return len(part)
    return leading_of(part)
