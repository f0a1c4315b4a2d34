"""Events of the native recorder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The enum TraceKind of trace.h."""

    COMPILE = 0
    READ_FILE = 1
    LOAD = 2
    EXECUTE = 3
    HOST_TO_DEVICE = 4
    DEVICE_TO_HOST = 5
    FEEDER = 6
    CONSUMER = 7
    STAGE = 8  # of a pipeline; `nbytes` is its mini-batch
    PIPELINE = 9  # an execution of one; `nbytes` is the first of its IPUs


@dataclass(frozen=True)
class Event:
    """An event, or several that the recorder merged.

    Attributes:
        kind: The kind of event.
        ordinal: The IPU; -1 for none.
        number: The queue's number or the program's key; for remote buffer n, -1 - n.
        name: Name of the queue, program or buffer.
        start_ns: Start on the monotonic clock.
        end_ns: End of the last merged event.
        busy_ns: Time without waits, summed over the merged events.
        waited_ns: Time of waits, summed.
        nbytes: Bytes, summed.
        count: Number of merged events.
        thread: Index of the thread in the process.
    """

    kind: Kind
    ordinal: int
    number: int
    name: str
    start_ns: int
    end_ns: int
    busy_ns: int
    waited_ns: int
    nbytes: int
    count: int
    thread: int
