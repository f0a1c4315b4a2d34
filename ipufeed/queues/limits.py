"""Process-wide settings of the queues: the stall report and the outfeed limit."""

from __future__ import annotations

import math
import numbers

from ipufeed import _native
from ipufeed.checks import is_int
from ipufeed.process_state import STATE

_MOST_S = 2**63 / 1e9
_STALL_REPORT_S = 30.0
_OUTFEED_LIMIT = 4 << 30


def set_stall_report(seconds: float | None) -> None:
    """Sets the time after which a program that waits for a queue logs a warning.

    The warning names the waiting side (the IPU and replica, or the pipeline's stage), the
    queue, the side that it waits for and the fill of the program's queues. It is repeated
    after twice the time, and so on, while the program continues to wait. The logger is
    `ipufeed`, which TF_CPP_MIN_LOG_LEVEL does not silence.

    Args:
        seconds: More than 0 and below 2**63 ns, or None for never. The default is 30.

    Raises:
        ValueError: It is not such a number.

    Threads: any; it applies to waits that begin after the call.
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
    """Sets the limit of unread results of an outfeed queue, in bytes.

    At this limit its program waits until a reader dequeues.

    Args:
        limit: Bytes, at least 0, with which only the ring's results are kept. The default
            is 4 GiB.

    Raises:
        ValueError: It is not such an integer.

    Threads: any; it applies to queues that are constructed after the call.
    """
    if not is_int(limit) or not 0 <= limit < 2**63:
        raise ValueError(
            "The limit of an outfeed queue must be an integer >= 0 of bytes, and below "
            f"2**63, got {limit!r}."
        )
    _native.entry().ipufeed_set_outfeed_limit_bytes(int(limit))


@STATE.part("queue limits")
def _restore_defaults() -> None:
    set_stall_report(_STALL_REPORT_S)
    set_outfeed_limit(_OUTFEED_LIMIT)
