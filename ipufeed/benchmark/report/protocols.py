"""What the views need of a result and of a recording: plain data, of any origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ipufeed.executable.tracing.events import Event


class Result(Protocol):
    """A result's sections, as ipufeed.benchmark.Result has them."""

    @property
    def epochs(self) -> list[dict[str, float]]: ...
    @property
    def dataset(self) -> dict[str, Any]: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def machine(self) -> dict[str, Any]: ...
    @property
    def startup(self) -> dict[str, Any] | None: ...
    @property
    def steady(self) -> dict[str, Any] | None: ...
    @property
    def latency(self) -> dict[str, Any] | None: ...
    @property
    def memcpy(self) -> dict[str, Any] | None: ...
    @property
    def resources(self) -> dict[str, Any]: ...
    @property
    def calibration(self) -> dict[str, float] | None: ...
    @property
    def links(self) -> dict[str, Any] | None: ...
    @property
    def stages(self) -> list[dict[str, Any]] | None: ...
    @property
    def advice(self) -> list[dict[str, Any]] | None: ...
    @property
    def what_if(self) -> list[dict[str, Any]] | None: ...
    @property
    def device(self) -> dict[str, Any] | None: ...
    @property
    def cold(self) -> dict[str, Any] | None: ...
    @property
    def service(self) -> dict[str, Any] | None: ...
    @property
    def processes(self) -> dict[str, Any] | None: ...
    @property
    def warnings(self) -> list[dict[str, str]]: ...
    @property
    def error(self) -> dict[str, Any] | None: ...
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
