"""The parts of a timeline: slices, executions, utilisation."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.parallel.pipeline import schedules

UPDATE = "update"


class Utilisation(float):
    """The fraction of the time in which an IPU is busy, a float, and its ideal.

    Attributes:
        ideal: The maximum of the schedule with stages of equal duration
            (`Schedule.ideal_utilisation`); None if it is unknown, as of pipelines of
            several schedules in one block.
    """

    ideal: float | None

    def __new__(cls, fraction: float, ideal: float | None = None) -> Utilisation:
        """Makes it of a fraction in [0, 1]."""
        made = super().__new__(cls, fraction)
        made.ideal = ideal
        return made

    def __repr__(self) -> str:
        ideal = "" if self.ideal is None else f" (ideal {self.ideal:.3f})"
        return f"{float(self):.3f}{ideal}"

    def __str__(self) -> str:
        ideal = "" if self.ideal is None else f" ({self.ideal:.1%})"
        return f"{float(self):.1%}{ideal}".replace("%", " %")


@dataclass(frozen=True)
class Slice:
    """The time in which a stage processes a mini-batch, or of a weight update.

    Attributes:
        label: The stage, as in "F0" or "B1"; "update".
        ipu: Its number within the device. Of a weight update the first one of its copy of
            the pipeline.
        mini_batch: The number of the mini-batch, from 0 in each execution; -1 of an
            update.
        start_ns: When its inputs were available, on the monotonic clock.
        end_ns: When its outputs were available, likewise.
    """

    label: str
    ipu: int
    mini_batch: int
    start_ns: int
    end_ns: int

    @property
    def order(self) -> tuple[bool, int, bool, str]:
        """The sort key of rows: by IPU, forward first; updates last."""
        return (
            self.label == UPDATE,
            self.ipu,
            self.label.startswith("B"),
            self.label,
        )


@dataclass(frozen=True)
class Execution:
    """An execution of a pipeline, by one of its copies.

    Attributes:
        schedule: In words: "Grouped training, 8 mini-batches, stages on IPUs 0 1".
        first_ipu: The first of the copy's IPUs within the device.
        start_ns: On the monotonic clock.
        end_ns: Likewise, before the weight update.
    """

    schedule: str
    first_ipu: int
    start_ns: int
    end_ns: int

    def ideal_utilisation(self) -> dict[int, float]:
        """Returns the ideal utilisation of each IPU of the copy."""
        found = schedules.read(self.schedule)
        if found is None:
            return {}
        ideals = found[0].ideal_utilisation(found[1])
        return {self.first_ipu + ipu: ideal for ipu, ideal in ideals.items()}
