"""Bounds for all queues of the process: how long in silence, how much in memory."""

from __future__ import annotations

import math
import numbers

from ipufeed import _native
from ipufeed.checks import is_int

_MOST_S = 2**63 / 1e9


def set_stall_report(seconds: float | None) -> None:
    """Sets after which time a program that waits for a queue logs a line.

    It logs a warning that names the waiting side (of a pipeline the stage; the IPU, and
    the replica), the queue, the side that it waits for and how full the program's queues
    are, again after twice the time, and so on; and goes on waiting. The logger is
    `ipufeed`, which TF_CPP_MIN_LOG_LEVEL does not silence.

    Args:
        seconds: More than 0 and below 2**63 ns, or None for never. At first: 30.

    Raises:
        ValueError: It is not such a number.

    Threads: any; for waits that begin after the call.
    """
    if seconds is None:
        _native.entry().ipufeed_set_stall_report_ns(0)
        return
    number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
    if not number or math.isnan(seconds) or not 0 < seconds < _MOST_S:
        raise ValueError(
            "The time for stall reports must be a number of seconds > 0 and below "
            f"2**63 ns ({_MOST_S:.2g} s), or None for never, got {seconds!r}."
        )
    seconds = float(seconds)
    _native.entry().ipufeed_set_stall_report_ns(
        min(max(1, int(seconds * 1e9)), 2**63 - 1)
    )


def set_outfeed_limit(limit: int) -> None:
    """Sets how many bytes of unread results an outfeed queue keeps.

    At this limit its program has to wait for a reader to dequeue.

    Args:
        limit: Bytes, at least 0: only what fits into the ring is kept. At first: 4 GiB.

    Raises:
        ValueError: It is not such an integer.

    Threads: any; for queues that are made after the call.
    """
    if not is_int(limit) or not 0 <= limit < 2**63:
        raise ValueError(
            "The limit of an outfeed queue must be an integer >= 0 of bytes, and below "
            f"2**63, got {limit!r}."
        )
    _native.entry().ipufeed_set_outfeed_limit_bytes(int(limit))
