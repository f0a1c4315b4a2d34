"""The timeline of an executed pipeline: rows of stages, colours of mini-batches.

    with timeline.record() as executed:
        session.run(program)
    executed.write_svg("pipeline.svg")
    print(executed.utilisation())

The programs of the IPUs record when each stage has its inputs and when its outputs are
available. All times are measured; only the ideal utilisation next to the measured one is
computed from the schedule. `ipufeed.executable.trace` writes the same, among others, into a
Chrome trace.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ipufeed.device.log import LOGGER
from ipufeed.executable.tracing import recorder
from ipufeed.executable.tracing.events import Event, Kind
from ipufeed.parallel.pipeline import schedules
from ipufeed.parallel.timelines.slices import UPDATE, Execution, Slice, Utilisation

LABEL = re.compile(r"([FB][\d.]+|update) on chip (\d+)")


@dataclass
class Timeline:
    """The recorded slices; filled at the end of the block of `record`.

    Attributes:
        slices: The slices of stages, by their start.
        updates: Those of weight updates, likewise: parts of the program, not of an IPU.
        executions: Those of whole executions of pipelines, likewise.
    """

    slices: list[Slice] = field(default_factory=list)
    updates: list[Slice] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        """The start of the first slice; raises ValueError as `utilisation` does."""
        return min(each.start_ns for each in self.recorded())

    @property
    def end_ns(self) -> int:
        """The end of the last slice; likewise."""
        return max(each.end_ns for each in self.recorded())

    def recorded(self) -> list[Slice]:
        """Returns the slices; raises ValueError if there are none."""
        if not self.slices:
            raise ValueError(
                "No stage has been recorded: run a pipeline inside the block of "
                "timeline.record(), and ask for its figures and its picture after the "
                "block. (Building or compiling a pipeline runs no stage.)"
            )
        return self.slices

    def rows(self) -> dict[str, list[Slice]]:
        """Returns the slices of each stage, by its name; rows of an IPU are adjacent.

        Updates are named by their copy of the pipeline, if there are several.
        """
        found: dict[str, list[Slice]] = {}
        every = [*self.slices, *self.updates]
        copies = sorted({each.ipu for each in self.updates})
        for each in sorted(every, key=lambda one: (one.order, one.start_ns)):
            name = f"IPU {each.ipu}, {each.label}"
            if each.label == UPDATE:
                number = f" {copies.index(each.ipu)}" if len(copies) > 1 else ""
                name = f"{UPDATE}{number}"
            found.setdefault(name, []).append(each)
        return found

    def utilisation(self) -> dict[int, Utilisation]:
        """Returns, of each IPU, the fraction of the time in which a stage of it was busy.

        A stage is busy from when it has its inputs until its outputs are available: waits
        for other IPUs and for feeds are idle time, and so is a weight update between two
        executions. The time is that from the first stage's start to the last one's end.
        Next to each fraction is the ideal (`Schedule.ideal_utilisation`), such as
        N / (N + S - 1) for a stage of a grouped pipeline in inference on each IPU.

        Raises:
            ValueError: No stage has been recorded.
        """
        whole = max(1, self.end_ns - self.start_ns)
        busy: dict[int, int] = {}
        for each in self.slices:
            busy[each.ipu] = busy.get(each.ipu, 0) + each.end_ns - each.start_ns
        ideals: dict[int, set[float]] = {}
        for schedule, first in {
            (one.schedule, one.first_ipu) for one in self.executions
        }:
            execution = Execution(schedule, first, 0, 0)
            for ipu, ideal in execution.ideal_utilisation().items():
                ideals.setdefault(ipu, set()).add(ideal)
        return {
            ipu: Utilisation(busy[ipu] / whole, _only(ideals.get(ipu, set())))
            for ipu in sorted(busy)
        }

    def to_svg(self, width: int = 960, whole_ms: float | None = None) -> str:
        """Draws the timeline; returns the SVG.

        Args:
            width: Pixels, at least 320. Default: 960.
            whole_ms: The minimal time span of the rows, so that several pictures can have
                one scale. Default (None): that of this timeline.

        Raises:
            ValueError: No stage has been recorded, or `width` is too small.
        """
        from ipufeed.parallel.timelines.svg import draw

        self.recorded()
        if width < 320:
            raise ValueError(f"`width` must be at least 320 pixels, got {width}.")
        return draw(self, width, whole_ms)

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG, replacing the file.

        Raises:
            ValueError: No stage has been recorded.
            OSError: The file cannot be written.
        """
        Path(path).write_text(self.to_svg(), encoding="utf-8")


def _only(values: set[float]) -> float | None:
    return next(iter(values)) if len(values) == 1 else None


@contextlib.contextmanager
def record(events: int = recorder.DEFAULT_EVENTS) -> Iterator[Timeline]:
    """Records the pipelines that run in the block.

    Args:
        events: The number of events of each thread that are kept. Default: 65536.

    Yields:
        A timeline, which is filled at the block's end.

    Raises:
        RuntimeError: A trace is running already: a process has one at a time.
    """
    timeline = Timeline()
    recorder.start(events)
    try:
        yield timeline
    finally:
        found, dropped = recorder.stop()
        fill(timeline, found)
        if dropped:
            LOGGER.warning(
                "The timeline lacks %d events, for which there was no room: give `events` "
                "more.",
                dropped,
            )


def _execution_of(event: Event, events: list[Event]) -> Execution:
    """Makes the execution of an event; counts the mini-batches if unknown before."""
    schedule = event.name
    unknown = f" {schedules.UNKNOWN} mini-batches"
    if unknown in schedule:
        count = 1 + max(
            (
                each.nbytes
                for each in events
                if each.kind is Kind.STAGE
                and event.start_ns <= each.start_ns <= event.end_ns
            ),
            default=-1,
        )
        schedule = schedule.replace(unknown, f" {count} mini-batches")
    return Execution(schedule, event.nbytes, event.start_ns, event.end_ns)


def fill(timeline: Timeline, events: list[Event]) -> None:
    """Sorts the recorded events into the timeline."""
    for event in events:
        if event.kind is Kind.PIPELINE:
            timeline.executions.append(_execution_of(event, events))
        label = LABEL.fullmatch(event.name) if event.kind is Kind.STAGE else None
        if label is None:
            continue
        one = Slice(label[1], int(label[2]), event.nbytes, event.start_ns, event.end_ns)
        (timeline.updates if label[1] == UPDATE else timeline.slices).append(one)
