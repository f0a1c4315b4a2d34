"""Where the time of a device went, from the times of its steps.

    end(n-1) --blocked--> free --starved--> start --step, late--> end(n)

AU, accelerator utilisation, is the time in which the device computed, as a share of all:
steps times their length over the time from the end of one step to the end of a later one.
The first step of a run is therefore never in it, nor is one that was cut off. `late` is
what the simulation itself took beyond a whole step: with starved and blocked time it is
what AU is short of 100 %, and it is the simulator's overhead.

Source: MLPerf Storage defines AU so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipufeed.device.program.steps import StepTimes


@dataclass(frozen=True)
class Utilisation:
    """What a device did from one step's end to another's.

    Attributes:
        steps: How many there were.
        seconds: The time that they took together.
        au: Share of it in which the device computed; with the next three it is 1.
        starved: Share in which it waited for an element.
        blocked: Share in which it waited for room in its outfeed.
        late: Share by which the simulation itself was late.
        starved_steps: Share of the steps that had to wait for their element.
        harness_seconds: What the simulation took of a step, as the median.
    """

    steps: int
    seconds: float
    au: float
    starved: float
    blocked: float
    late: float
    starved_steps: float
    harness_seconds: float

    @property
    def period(self) -> float:
        """Seconds from step to step."""
        return self.seconds / self.steps


def utilisation(
    times: StepTimes,
    step_ns: int,
    first: int = 0,
    last: int = -1,
    begun: tuple[int, ...] = (),
) -> Utilisation | None:
    """The utilisation from the end of step `first` to that of step `last`.

    Args:
        times: Of all steps, in order.
        step_ns: How long each was to take.
        first: Index of the step whose end begins the time; negative as in a list.
        last: Index of the step whose end ends it.
        begun: Indices of steps with which a program began: before them no program waited
            for an outfeed, so that the time since the step before is starvation.

    Returns:
        None if there is no time between the two.
    """
    ends = times.end
    first, last = (place % len(ends) if len(ends) else 0 for place in (first, last))
    if last <= first or ends[last] <= ends[first]:
        return None
    inside = slice(first + 1, last + 1)
    before = ends[first:last]
    free = times.free[inside].copy()
    for place in begun:
        if first < place <= last:
            free[place - first - 1] = before[place - first - 1]
    start = times.start[inside]
    steps, total = last - first, int(ends[last] - ends[first])
    starved = start - free
    return Utilisation(
        steps=steps,
        seconds=total / 1e9,
        au=steps * step_ns / total,
        starved=int(starved.sum()) / total,
        blocked=int((free - before).sum()) / total,
        late=int((ends[inside] - start - step_ns).sum()) / total,
        starved_steps=float(np.count_nonzero(starved)) / steps,
        harness_seconds=float(np.median(times.called[inside] - start)) / 1e9,
    )
