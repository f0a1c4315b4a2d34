"""The events of the native recorder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """TraceKind of trace.h."""

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
    """What the recorder has of an event, or of several that became one.

    Attributes:
        kind: What it is.
        ordinal: Of the IPU; -1 for none.
        number: Of the queue, or a program's key; of a remote buffer -1 less its number.
        name: What a person calls that.
        start_ns: On the monotonic clock.
        end_ns: Of the last one that it stands for.
        busy_ns: Of all, without waits.
        waited_ns: Of all.
        nbytes: Of all.
        count: How many it stands for.
        thread: Of the process, from 0.
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
