"""Protocols of a result and of a recording, for plain data of any origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ipufeed.executable.tracing.events import Event

Section = Mapping[str, Any]
# A label of the summary and its text; None: the row is left out.
Row = tuple[str, str | None]


class Result(Protocol):
    """The sections of ipufeed.benchmark.Result."""

    @property
    def epochs(self) -> Sequence[Section]: ...
    @property
    def dataset(self) -> Section: ...
    @property
    def settings(self) -> Section: ...
    @property
    def machine(self) -> Section: ...
    @property
    def startup(self) -> Section | None: ...
    @property
    def steady(self) -> Section | None: ...
    @property
    def latency(self) -> Section | None: ...
    @property
    def memcpy(self) -> Section | None: ...
    @property
    def resources(self) -> Section: ...
    @property
    def calibration(self) -> Section | None: ...
    @property
    def links(self) -> Section | None: ...
    @property
    def stages(self) -> Sequence[Section] | None: ...
    @property
    def advice(self) -> Sequence[Section] | None: ...
    @property
    def what_if(self) -> Sequence[Section] | None: ...
    @property
    def device(self) -> Section | None: ...
    @property
    def cold(self) -> Section | None: ...
    @property
    def service(self) -> Section | None: ...
    @property
    def processes(self) -> Section | None: ...
    @property
    def warnings(self) -> Sequence[Section]: ...
    @property
    def error(self) -> Section | None: ...
    @property
    def elements(self) -> int: ...
    def to_json(self) -> str: ...


class Recording(Protocol):
    """The events of a measurement's threads (measuring.recording).

    Attributes:
        events: In order of their start.
        dropped: Number of events that did not fit.
        begun_ns: Start of the recording, on the monotonic clock.
        requested_ns: Request of the iterator, on the same clock.
    """

    events: list[Event]
    dropped: int
    begun_ns: int
    requested_ns: int
