"""What a queue has counted, and how to read it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from ipufeed import _native

_FIELDS = 10


@dataclass(frozen=True)
class QueueStats:
    """Counts and times of one queue since it was initialised. They only grow.

    Attributes:
        name: The queue's id.
        elements: Elements that the program has taken (infeed) or given (outfeed).
        capacity: Elements that the ring holds at most.
        filled: Elements in the ring now. An infeed's ring that is always empty: the
            dataset is the slower side. Always full: the program is.
        stored_bytes: Bytes of an outfeed's results that have not been read yet, behind the
            ring. Growing: results come faster than they are read.
        device_waits: How often the program found its ring empty (infeed) or full
            (outfeed).
        device_parks: How many of these waits were long enough to sleep: a multiple of
            0.1 of `elements` means the program is starved.
        device_waited_s: Seconds in them. Over the run's time this is the share in which
            the accelerator stood still because of this queue.
        host_waits: The same for the other side: the feeder thread of an infeed, which
            waits when the ring is full (as it should), or the reader of an outfeed.
        host_parks: Likewise.
        host_waited_s: Likewise.
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
    """The counters of a feed; all zero if it is not there. kind: infeed or outfeed."""
    values = (ctypes.c_int64 * _FIELDS)()
    entry = _native.entry()
    function = (
        entry.ipufeed_infeed_stats if kind == "infeed" else entry.ipufeed_outfeed_stats
    )
    if function(number, values) != 0:
        return QueueStats(name)
    (
        elements,
        capacity,
        filled,
        stored,
        d_waits,
        d_parks,
        d_ns,
        h_waits,
        h_parks,
        h_ns,
    ) = values
    return QueueStats(
        name,
        elements,
        capacity,
        filled,
        stored,
        d_waits,
        d_parks,
        d_ns / 1e9,
        h_waits,
        h_parks,
        h_ns / 1e9,
    )
