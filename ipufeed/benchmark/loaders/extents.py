"""Bytes and samples of a loader's elements, most of which are like the one before.

An element of arrays and numbers has the bytes and samples of the one before it if each
leaf has the class, shape and dtype of that one's. To compare these is less code than to
add them up, and code that runs once per element is slow: a loader's work in between takes
the caches of the CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.sources.loaders.leaves import (
    NUMBERS,
    Element,
    Leaf,
    extent_of,
    is_numbers,
    leaves_of,
)
from ipufeed.sources.loaders.tables import package_of

# What decides a part's bytes and dimensions, and is cheap to compare: an array's shape
# and dtype, a number's class, of a nest the forms of its parts.
Form = Any


def _form_of_dict(part: dict[Any, Element]) -> Form:
    return [_form_of[type(each)](each) for each in part.values()]  # type: ignore[misc]


def _form_of_series(part: list[Element] | tuple[Element, ...]) -> Form:
    if type(part) is list and is_numbers(part):
        return len(part)
    # A list with None in it is a column, a tuple is not.
    return type(part), [_form_of[type(each)](each) for each in part]  # type: ignore[misc]


_shape_and_dtype = operator.attrgetter("shape", "dtype")
# How the form of a part is found, by its class: to call what is not there, or None, is an
# error, and the element has no form. Leaves' classes are added as they come.
_form_of: dict[type, Callable[[Any], Form] | None] = {
    dict: _form_of_dict,
    **dict.fromkeys((list, tuple), _form_of_series),
    **dict.fromkeys((*NUMBERS, type(None)), type),
    np.ndarray: _shape_and_dtype,
}
_FORM_BY_PACKAGE: dict[str, Callable[[Leaf], Form]] = {
    "numpy": _shape_and_dtype,
    # Its shape and dtype are properties in Python, which ask for the `aval`.
    "jaxlib": operator.attrgetter("aval"),
    # A sparse tensor has the shape and dtype of a dense one.
    "torch": operator.attrgetter("layout", "dtype", "shape"),
}


class Extents:
    """Adds up the leaves of one element after the other.

    Attributes:
        opaque: Leaves of unknown size so far.
        same_leading_dimension: Whether each element so far has a number of samples.

    Threads: one at a time; the attributes are read from any.
    """

    def __init__(self, rows: Rows) -> None:
        self.opaque = 0
        self.same_leading_dimension = True
        self._rows = rows
        # Of the element before.
        self._form: Form | None = None
        self._known = (0, 0)
        self._compares = True

    def of(self, element: Element, leaves: list[Leaf] | None = None) -> tuple[int, int]:
        """Returns the element's bytes, and its samples or 0.

        Args:
            element: The element.
            leaves: Its leaves, if they are known: to find those of a table takes long.
        """
        if not self._compares:
            return self._added_up(element, leaves)
        form = _form_if_any(element)
        if form is not None and form == self._form:
            return self._known
        opaque = self.opaque
        leaves = leaves_of(element) if leaves is None else leaves
        self._known = self._added_up(element, leaves)
        _add_classes(leaves)
        is_known = self.opaque == opaque and not self._rows.searches
        self._form = _form_if_any(element) if is_known else None
        # To compare is lost on a loader of texts, tables or objects.
        self._compares = self._form is not None
        return self._known

    def _added_up(self, element: Element, leaves: list[Leaf] | None) -> tuple[int, int]:
        leaves = leaves_of(element) if leaves is None else leaves
        size = 0
        samples: int | None = None
        alike = True
        for number, leaf in enumerate(leaves):
            extent, leading = extent_of(leaf)
            if extent is None:
                self.opaque += 1
            else:
                size += extent
            if number == 0:
                samples = leading
            elif leading != samples:
                alike = False
        # One element without an agreement is enough: the run has no number of samples.
        if self.same_leading_dimension:
            if not alike or samples is None or self._rows.searches:
                samples = self._rows.of(element, samples if alike else None)
            self.same_leading_dimension = samples is not None
        return size, samples or 0


def _form_if_any(element: Element) -> Form | None:
    """Returns the form of an element; None if a part of it has none."""
    try:
        return _form_of[type(element)](element)  # type: ignore[misc]
    except Exception:  # of the table, or of an array: a nested tensor has no shape
        return None


def _add_classes(leaves: list[Leaf]) -> None:
    """Adds the classes of leaves to those with a form, or without."""
    for leaf in leaves:
        kind = type(leaf)
        if kind not in _form_of:
            package = package_of(leaf)
            # Others, such as a jagged one, whose shape has a symbol, are never known.
            is_plain = package != "torch" or kind.__name__ in ("Tensor", "Parameter")
            _form_of[kind] = _FORM_BY_PACKAGE.get(package) if is_plain else None
