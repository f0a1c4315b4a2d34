"""The counters of a queue."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from ipufeed import _native

_FIELDS = 10


@dataclass(frozen=True)
class QueueStats:
    """Counts and times of one queue since it was initialised; they never decrease.

    Attributes:
        name: The queue's id.
        elements: Elements that the program has dequeued (infeed) or enqueued (outfeed).
        capacity: The ring's capacity in elements: of an infeed `prefetch_depth`, or as
            many as 256 MiB hold if its elements are larger.
        filled: Elements in the ring now. An infeed's ring that is always empty: the
            dataset is the slower side. Always full: the program is.
        stored_bytes: Bytes of an outfeed's unread results behind the ring. If it grows,
            results are enqueued faster than they are read.
        device_waits: How many times the program found its ring empty (infeed) or full
            (outfeed).
        device_parks: The number of these waits that were long enough to sleep: a multiple
            of 0.1 of `elements` means the program is starved.
        device_waited_s: Their total seconds. Divided by the run's time this is the
            fraction in which the accelerator waited for this queue.
        host_waits: The same count for the other side: the feeder thread of an infeed,
            which normally waits for a full ring, or the reader of an outfeed.
        host_parks: The number of these waits that were long enough to sleep.
        host_waited_s: Their total seconds.
    """

    name: str
    elements: int = 0
    capacity: int = 0
    filled: int = 0
    stored_bytes: int = 0
    device_waits: int = 0
    device_parks: int = 0
    device_waited_s: float = 0.0
    host_waits: int = 0
    host_parks: int = 0
    host_waited_s: float = 0.0


def read_stats(kind: str, number: int, name: str) -> QueueStats:
    """Reads the counters of a feed; zeros if it does not exist.

    Args:
        kind: "infeed" or "outfeed".
        number: The feed's number in the native core.
        name: The queue's id.
    """
    values = (ctypes.c_int64 * _FIELDS)()
    entry = _native.entry()
    function = (
        entry.ipufeed_infeed_stats if kind == "infeed" else entry.ipufeed_outfeed_stats
    )
    return QueueStats(name) if function(number, values) else as_stats(name, [*values])


def as_stats(name: str, numbers: list[int]) -> QueueStats:
    """Converts the native core's counters (cc/feeds/feed_stats.h), which have ns."""
    elements, capacity, filled, stored, *waits = numbers
    d_waits, d_parks, d_ns, h_waits, h_parks, h_ns = waits
    device = d_waits, d_parks, d_ns / 1e9
    host = h_waits, h_parks, h_ns / 1e9
    return QueueStats(name, elements, capacity, filled, stored, *device, *host)
