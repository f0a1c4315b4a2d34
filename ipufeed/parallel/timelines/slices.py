"""What a timeline consists of: slices, executions, the share of the time."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.parallel.pipeline import schedules

UPDATE = "update"


class Utilisation(float):
    """A share of the time, which is a number like any other, and what is ideal.

    Attributes:
        ideal: The most that the schedule allows, were all stages equally long
            (`Schedule.ideal_utilisation`); None if that is not known, as of pipelines of
            several schedules in one block.
    """

    ideal: float | None

    def __new__(cls, share: float, ideal: float | None = None) -> Utilisation:
        """A share of 0 to 1."""
        made = super().__new__(cls, share)
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
    """A stage at work on a mini-batch, or a weight update.

    Attributes:
        label: The stage, as in "F0" or "B1"; "update".
        ipu: Its number within the device. Of a weight update the first one of its copy of
            the pipeline.
        mini_batch: The number of the mini-batch, from 0 in each execution; -1 of an
            update.
        start_ns: When its inputs were there, on the monotonic clock.
        end_ns: When its outputs were made, likewise.
    """

    label: str
    ipu: int
    mini_batch: int
    start_ns: int
    end_ns: int

    @property
    def order(self) -> tuple[bool, int, bool, str]:
        """Rows by IPU, forward first; updates below all others."""
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
        schedule: All of it, as in "Grouped training, 8 mini-batches, stages on IPUs 0 1".
        first_ipu: The first of the copy's IPUs within the device.
        start_ns: On the monotonic clock.
        end_ns: Likewise, before the weight update.
    """

    schedule: str
    first_ipu: int
    start_ns: int
    end_ns: int

    def ideal_utilisation(self) -> dict[int, float]:
        """Of each IPU of the copy."""
        found = schedules.read(self.schedule)
        if found is None:
            return {}
        shares = found[0].ideal_utilisation(found[1])
        return {self.first_ipu + ipu: share for ipu, share in shares.items()}
