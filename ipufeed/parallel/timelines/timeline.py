"""What a pipeline has really done: a row for each stage, a colour for each mini-batch.

    with timeline.record() as executed:
        session.run(program)
    executed.write_svg("pipeline.svg")
    print(executed.utilisation())

The programs of the IPUs record when each stage has its inputs and when it has made its
outputs; nothing is computed from the schedule, but for the ideal that is written next to
what was measured. `ipufeed.executable.trace` writes the same into a Chrome trace, with the
rest.
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
    """What has been recorded; it is filled at the end of the block of `record`.

    Attributes:
        slices: Stages at work, by their start.
        updates: Weight updates, likewise. An update is part of the program, and no IPU's
            work alone.
        executions: Of pipelines, likewise.
    """

    slices: list[Slice] = field(default_factory=list)
    updates: list[Slice] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        """When the first stage begins; raises ValueError as `utilisation` does."""
        return min(each.start_ns for each in self.recorded())

    @property
    def end_ns(self) -> int:
        """When the last one ends; likewise."""
        return max(each.end_ns for each in self.recorded())

    def recorded(self) -> list[Slice]:
        """The slices.

        Raises:
            ValueError: There are none.
        """
        if not self.slices:
            raise ValueError(
                "No stage has been recorded: run a pipeline inside the block of "
                "timeline.record(), and ask for its figures and its picture after the "
                "block. (Building or compiling a pipeline runs no stage.)"
            )
        return self.slices

    def rows(self) -> dict[str, list[Slice]]:
        """The slices of each stage, by a name of it; rows of an IPU stand together.

        Updates are called by their copy of the pipeline, if there are several.
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
        """Of each IPU, which share of the time some stage of it was at work.

        A stage is at work from when it has its inputs until its outputs are made: waits
        for other IPUs and for feeds are idle time, and so is a weight update between two
        executions. The time is that from the first stage's beginning to the last one's
        end. Next to each share is the ideal (`Schedule.ideal_utilisation`), such as
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
            for ipu, share in execution.ideal_utilisation().items():
                ideals.setdefault(ipu, set()).add(share)
        return {
            ipu: Utilisation(busy[ipu] / whole, only(ideals.get(ipu, set())))
            for ipu in sorted(busy)
        }

    def to_svg(self, width: int = 960, whole_ms: float | None = None) -> str:
        """The picture.

        Args:
            width: Pixels, at least 320. Default: 960.
            whole_ms: Which time the rows stand for at least, so that several pictures can
                have one scale. Default (None): that of this timeline.

        Raises:
            ValueError: No stage has been recorded, or `width` is too small.
        """
        from ipufeed.parallel.timelines.svg import draw

        self.recorded()
        if width < 320:
            raise ValueError(f"`width` must be at least 320 pixels, got {width}.")
        return draw(self, width, whole_ms)

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes it, in place of what the file has.

        Raises:
            ValueError: No stage has been recorded.
            OSError: The file cannot be written.
        """
        Path(path).write_text(self.to_svg(), encoding="utf-8")


def only(values: set[float]) -> float | None:
    """The value, if there is one."""
    return next(iter(values)) if len(values) == 1 else None


@contextlib.contextmanager
def record(events: int = recorder.DEFAULT_EVENTS) -> Iterator[Timeline]:
    """Records the pipelines that run in the block.

    Args:
        events: How many events of each thread are kept. Default: 65536.

    Yields:
        A timeline, which is filled at the block's end.

    Raises:
        RuntimeError: A trace is running already: there is one for the process.
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


def execution_of(event: Event, events: list[Event]) -> Execution:
    """The execution; how many mini-batches it had is seen where only the run knew."""
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
    """Sorts what has been recorded."""
    for event in events:
        if event.kind is Kind.PIPELINE:
            timeline.executions.append(execution_of(event, events))
        label = LABEL.fullmatch(event.name) if event.kind is Kind.STAGE else None
        if label is None:
            continue
        one = Slice(label[1], int(label[2]), event.nbytes, event.start_ns, event.end_ns)
        (timeline.updates if label[1] == UPDATE else timeline.slices).append(one)
