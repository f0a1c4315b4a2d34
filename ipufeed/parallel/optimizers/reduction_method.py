"""How the gradients of several mini-batches become one."""

from __future__ import annotations

import enum
from typing import Any


class GradientAccumulationReductionMethod(enum.Enum):
    """What an optimizer gets for the gradients of a number of mini-batches.

    SUM: their sum. MEAN: the sum of each divided by their number. RUNNING_MEAN: the mean of
    those so far, which does not overflow where the sum would.

    Source: Graphcore's enumeration of this name.
    """

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, reduction_method: Any) -> GradientAccumulationReductionMethod:
        """The method, from one of these or its name in letters of any case.

        Raises:
            ValueError: It is none of them.
        """
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str):
            found = cls.__members__.get(reduction_method.upper())
            if found is not None:
                return found
        raise ValueError(
            f"Cannot parse {reduction_method} as one of "
            "GradientAccumulationReductionMethod. Valid values are: "
            f"{', '.join(cls.__members__)}."
        )
