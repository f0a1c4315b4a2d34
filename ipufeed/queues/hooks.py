"""Functions of the device package that the queues call without importing it.

The device package replaces the defaults here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ipufeed.checks import is_int
from ipufeed.tf_types import DType, Shape, Tensor

SyntheticTensor = Callable[[DType, Shape], Tensor]


@dataclass
class DeviceHooks:
    """The hooks, called when a queue is constructed or used.

    Attributes:
        default_ordinal: Returns the IPU of a queue without a `device_ordinal`.
        check_ordinal: Raises ValueError if an ordinal cannot be used.
        infeed_threads: Returns the threads for a dataset's parallel work; 0: the default.
        null_data_feed: Returns whether infeeds return constant data.
        synthetic_infeed: Returns None, or the function of a dtype and shape that builds
            the tensor with which a program computes instead of the dataset's data.
        synthetic_outfeed: Returns whether outfeeds drop what is enqueued.
        runs_programs: Returns whether programs run. If not, feeds return zeros.
    """

    default_ordinal: Callable[[], int] = lambda: 0
    check_ordinal: Callable[[int], None] = lambda ordinal: None
    infeed_threads: Callable[[], int] = lambda: 0
    null_data_feed: Callable[[], bool] = lambda: False
    synthetic_infeed: Callable[[], SyntheticTensor | None] = lambda: None
    synthetic_outfeed: Callable[[], bool] = lambda: False
    runs_programs: Callable[[], bool] = lambda: True


device_hooks = DeviceHooks()


def checked_ordinal(ordinal: int | None) -> int:
    """Returns the IPU of a queue: the given one, or the default.

    Raises:
        ValueError: It is negative, not an integer, or not usable.
    """
    if ordinal is None:
        ordinal = device_hooks.default_ordinal()
    if not is_int(ordinal):
        raise ValueError(f"Device ordinal must be an integer, got {ordinal!r}.")
    if ordinal < 0:
        raise ValueError(f"Device ordinal must be >= 0, got {ordinal}.")
    device_hooks.check_ordinal(int(ordinal))
    return int(ordinal)
