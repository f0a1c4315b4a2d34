"""The fractions of a device's time, from the times of its steps.

    end(n-1) --blocked--> free --starved--> start --step, late--> end(n)

AU, accelerator utilisation, is the fraction of the time in which the device computed: steps
times their length over the time from the end of one step to the end of a later one. So it
excludes the first step of a run, and one that was cut off. `late` is the simulator's
overhead, its time beyond a whole step. AU, starved, blocked and late time add up to 100 %.

Source: the definition of AU is that of MLPerf Storage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipufeed.device.program.steps import StepTimes


@dataclass(frozen=True)
class Utilisation:
    """The fractions of a device's time from one step's end to another's.

    Attributes:
        steps: The number of steps.
        seconds: Their total time.
        au: The fraction in which the device computed; with the next three the sum is 1.
        starved: The fraction in which it waited for an element.
        blocked: The fraction in which it waited for space in its outfeed.
        late: The fraction of the simulator's overhead.
        starved_steps: The fraction of the steps that waited for their element.
        harness_seconds: The median of the simulator's time in a step.
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
        """The mean seconds from step to step."""
        return self.seconds / self.steps


def utilisation(
    times: StepTimes,
    step_ns: int,
    first: int = 0,
    last: int = -1,
    begun: tuple[int, ...] = (),
) -> Utilisation | None:
    """Returns the utilisation from the end of step `first` to that of step `last`.

    Args:
        times: The times of all steps, in order.
        step_ns: The length of each step.
        first: The index of the step whose end is the start; negative as in a list.
        last: The index of the step whose end is the end.
        begun: The indices of the programs' first steps: no program waited for an outfeed
            before them, so that the time since the step before counts as starved.

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
