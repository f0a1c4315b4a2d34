"""What the queues want to know of the device, without importing it.

The device package puts its answers in here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed.checks import is_int


@dataclass
class Surroundings:
    """Answers for a queue, asked when it is made or used.

    Attributes:
        default_ordinal: The IPU of a queue that names none.
        check_ordinal: Raises if an ordinal cannot be used.
        infeed_threads: Threads for a dataset's own parallel work; 0 for the default.
        null_data_feed: Whether infeeds give constant data.
        synthetic_infeed: None, or what makes the tensor of a dtype and shape that a
            program computes with in place of data.
        synthetic_outfeed: Whether outfeeds drop what is enqueued.
        runs_programs: Whether programs run. If not, feeds read and give nothing but zeros.
    """

    default_ordinal: Callable[[], int] = lambda: 0
    check_ordinal: Callable[[int], None] = lambda ordinal: None
    infeed_threads: Callable[[], int] = lambda: 0
    null_data_feed: Callable[[], bool] = lambda: False
    synthetic_infeed: Callable[[], Callable[[Any, Any], Any] | None] = lambda: None
    synthetic_outfeed: Callable[[], bool] = lambda: False
    runs_programs: Callable[[], bool] = lambda: True


surroundings = Surroundings()


def device_ordinal(ordinal: int | None) -> int:
    """The IPU that a queue belongs to.

    Raises:
        ValueError: It is negative, not an integer, or not usable.
    """
    if ordinal is None:
        ordinal = surroundings.default_ordinal()
    if not is_int(ordinal):
        raise ValueError(f"Device ordinal must be an integer, got {ordinal!r}.")
    if ordinal < 0:
        raise ValueError(f"Device ordinal must be >= 0, got {ordinal}.")
    surroundings.check_ordinal(int(ordinal))
    return int(ordinal)
