"""What the views need of a result and of a recording: plain data, of any origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ipufeed.executable.tracing.events import Event


class Result(Protocol):
    """A result's sections, as ipufeed.benchmark.Result has them."""

    @property
    def epochs(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def dataset(self) -> Mapping[str, Any]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def machine(self) -> Mapping[str, Any]: ...
    @property
    def startup(self) -> Mapping[str, Any] | None: ...
    @property
    def steady(self) -> Mapping[str, Any] | None: ...
    @property
    def latency(self) -> Mapping[str, Any] | None: ...
    @property
    def memcpy(self) -> Mapping[str, Any] | None: ...
    @property
    def resources(self) -> Mapping[str, Any]: ...
    @property
    def calibration(self) -> Mapping[str, Any] | None: ...
    @property
    def links(self) -> Mapping[str, Any] | None: ...
    @property
    def stages(self) -> Sequence[Mapping[str, Any]] | None: ...
    @property
    def advice(self) -> Sequence[Mapping[str, Any]] | None: ...
    @property
    def what_if(self) -> Sequence[Mapping[str, Any]] | None: ...
    @property
    def device(self) -> Mapping[str, Any] | None: ...
    @property
    def cold(self) -> Mapping[str, Any] | None: ...
    @property
    def service(self) -> Mapping[str, Any] | None: ...
    @property
    def processes(self) -> Mapping[str, Any] | None: ...
    @property
    def warnings(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def elements(self) -> int: ...


class Recording(Protocol):
    """What the threads did during a measurement, as measuring.recording has it.

    Attributes:
        events: By their start.
        dropped: Events for which there was no room.
        begun_ns: When the recording began, on the monotonic clock.
        requested_ns: When the iterator was asked for, on the same clock.
    """

    events: list[Event]
    dropped: int
    begun_ns: int
    requested_ns: int
