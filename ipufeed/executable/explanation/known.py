"""Records reported changes, to recognise others as their consequences."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction

from ipufeed.executable.hlo.hlo import Shape


@dataclass
class Known:
    """The reported changes.

    Attributes:
        dims: (before, after) of dimensions and numbers of elements.
        dtypes: (before, after) of element types.
        ratios: Ratios of dimensions, after / before.
        ranks: (before, after) of numbers of dimensions.
    """

    dims: set[tuple[int, int]] = dataclasses.field(default_factory=set)
    dtypes: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    ratios: set[Fraction] = dataclasses.field(default_factory=set)
    ranks: set[tuple[int, int]] = dataclasses.field(default_factory=set)

    def add(self, before: Shape, after: Shape) -> None:
        """Records a changed shape."""
        if before.parts or after.parts:
            for part, part_after in zip(before.parts, after.parts, strict=False):
                self.add(part, part_after)
            return
        if before.dtype != after.dtype:
            self.dtypes.add((before.dtype, after.dtype))
        if before.dims == after.dims:
            return
        self.dims.add((before.elements, after.elements))
        if len(before.dims) != len(after.dims):
            self.ranks.add((len(before.dims), len(after.dims)))
            return
        for one, other in zip(before.dims, after.dims, strict=True):
            if one != other:
                self.dims.add((one, other))
                if one and other:
                    self.ratios.add(Fraction(other, one))

    def has_size(self, before: float, after: float) -> bool:
        """Whether a number is a changed dimension, or a product with one.

        A mean over rows and columns, for example, divides by a product of dimensions.
        """
        if not (
            before.is_integer() and after.is_integer() and before > 1 and after > 1
        ):
            return False
        one, other = int(before), int(after)
        least = min((each for each, _ in self.dims), default=0)
        return any(
            (one, other) == (size, now)
            or _is_multiple(one, other, size, now)
            or (one >= least and _is_multiple(size, now, one, other))
            for size, now in self.dims
        )

    def has_dims(self, before: Shape, after: Shape) -> bool:
        """Whether a change of dimensions follows from recorded ones."""
        if len(before.dims) != len(after.dims):
            return bool(self.dims)
        return all(
            one == other
            or (one, other) in self.dims
            or (one != 0 and Fraction(other, one) in self.ratios)
            for one, other in zip(before.dims, after.dims, strict=True)
        )


def _is_multiple(one: int, other: int, size: int, now: int) -> bool:
    """Whether two numbers are the same multiple of two sizes."""
    if not size or not now or one % size or other % now:
        return False
    return one // size == other // now
