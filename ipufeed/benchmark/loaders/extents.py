"""Bytes and samples of a loader's elements, most of which are like the one before.

An element of plain arrays and numbers has the bytes and samples of the one before it if
each part has the class, shape and dtype of that one's. To compare these is less code than
to add them up, and code that runs once per element is slow: a loader's work in between
takes the caches of the CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ipufeed.benchmark.loaders.leaves import Element, Leaf, extent_of, leaves_of
from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.benchmark.loaders.tables import package_of

Form = (
    Any  # what decides a leaf's bytes and dimensions: shape and dtype, an aval, a class
)

_shape_and_dtype = operator.attrgetter("shape", "dtype")
# How the form of a leaf is found, by its class; None of classes whose objects differ in
# more than that. A sparse tensor of torch has the shape and dtype of a dense one.
_form_of: dict[type, Callable[[Leaf], Form] | None] = {
    **dict.fromkeys((int, float, bool), type),
    np.ndarray: _shape_and_dtype,
}
_FORM_BY_PACKAGE: dict[str, Callable[[Leaf], Form]] = {
    "numpy": _shape_and_dtype,
    # Its shape and dtype are properties in Python, which ask for the `aval`.
    "jaxlib": operator.attrgetter("aval"),
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
        # Of the element before: its parts' forms and its extent.
        self._forms: list[Form] | None = None
        self._known = (0, 0)
        self._compares = True

    def of(self, element: Element) -> tuple[int, int]:
        """Returns the element's bytes, and its samples or 0."""
        if not self._compares:
            return self._added_up(element)
        forms = _forms_of(element)
        if forms is not None and forms == self._forms:
            return self._known
        opaque = self.opaque
        self._known = self._added_up(element)
        is_known = self.opaque == opaque and not self._rows.searches
        self._forms = _forms_if_flat(element) if is_known else None
        # To compare is lost on a loader of nests, texts or lists of numbers.
        self._compares = self._forms is not None
        return self._known

    def _added_up(self, element: Element) -> tuple[int, int]:
        size = 0
        samples: int | None = None
        alike = True
        for number, leaf in enumerate(leaves_of(element)):
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


def _forms_if_flat(element: Element) -> list[Form] | None:
    """Returns the forms of the element's parts; None unless these are its leaves."""
    leaves = leaves_of(element)
    for leaf in leaves:
        if type(leaf) not in _form_of:
            _form_of[type(leaf)] = _new_form(leaf)
    parts = _parts_of(element)
    flat = len(leaves) == len(parts) and all(map(operator.is_, leaves, parts))
    return _forms_of(element) if flat else None


def _new_form(leaf: Leaf) -> Callable[[Leaf], Form] | None:
    """Returns how the form of such a leaf is found, if it has one."""
    package = package_of(leaf)
    if package == "torch" and type(leaf).__name__ not in ("Tensor", "Parameter"):
        return None  # such as a jagged one, whose shape has a symbol
    return _FORM_BY_PACKAGE.get(package)


def _forms_of(element: Element) -> list[Form] | None:
    """Returns the forms of the element's parts; None if one has none."""
    try:
        # Of a class without a form the table has nothing or None, which is not callable.
        return [
            _form_of[type(part)](part)  # type: ignore[misc]
            for part in _parts_of(element)
        ]
    except Exception:  # of the above, or of an array: a nested tensor has no shape
        return None


def _parts_of(element: Element) -> Collection[Element]:
    kind = type(element)
    if kind is dict:
        parts: Collection[Element] = element.values()
        return parts
    return element if kind is tuple or kind is list else (element,)
