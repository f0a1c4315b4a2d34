"""Records the spans of each thread during a measurement, for a trace."""

from __future__ import annotations

import time

from ipufeed.executable.tracing import recorder
from ipufeed.executable.tracing.events import Event

# For each thread: 4096 elements in full, and hours at less detail (cc/base/trace.h). That
# is a trace of some megabytes, which a browser opens quickly; four times as many events
# take seconds to write.
EVENTS = 1 << 14


class Recording:
    """Records while its block runs.

    It costs the feeder and the consumer about 0.1 µs each for an element, and is therefore
    on only for a trace.

    Attributes:
        events: Sorted by start; empty until the block has ended.
        dropped: Events that did not fit into the buffer.
        begun_ns: Start of the block on the monotonic clock: the trace's time 0.
        requested_ns: Time of the request for the iterator, the time 0 of `Result.series`;
            the measurement sets it.

    Raises:
        ValueError: At the start of the block, if another trace runs.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dropped = 0
        self.begun_ns = 0
        self.requested_ns = 0

    def __enter__(self) -> Recording:
        try:
            recorder.start(EVENTS)
        except RuntimeError as error:
            raise ValueError(f"`trace` cannot be recorded. {error}") from None
        self.begun_ns = self.requested_ns = time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self.events, self.dropped = recorder.stop()
