"""What each thread did during a measurement, from the native recorder, for a trace."""

from __future__ import annotations

import time
from types import TracebackType

from ipufeed.executable.tracing import recorder
from ipufeed.executable.tracing.events import Event

# Of each thread: 4096 elements in full, and hours at less detail (cc/base/trace.h). It
# is a trace of some megabytes, which a browser opens at once; four times as many take
# seconds to write.
EVENTS = 1 << 14


class Recording:
    """Records while its block runs.

    It costs the feeder and the consumer some 0.1 µs each for an element, and is therefore
    on only where a trace was asked for.

    Attributes:
        events: By their start; empty until the block has ended.
        dropped: How many found no room.
        begun_ns: When the block began, on the monotonic clock: the trace's time 0.
        requested_ns: When the iterator was asked for, the time 0 of `Result.series`;
            the measurement sets it.

    Raises:
        ValueError: At the beginning of the block, if another trace runs.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.events, self.dropped = recorder.stop()
