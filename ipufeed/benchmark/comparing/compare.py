"""Compares two results, or several of each: better, worse, or cannot tell.

    result --> read_result.py: rate, windows --> variance.py: how well each rate is known
                                             |
    rates of base, rates of new ----------> ratio, interval --> verdict

Compared are logarithms of rates. Each has the variance of its own windows, and what one
run cannot show: that the next one of the same thing comes out a little different, from
where threads and memory lie, the CPU's frequency, the path of AUTOTUNE. With one run of
each that part is assumed, RUN_TO_RUN; with several it is more and more what they show
themselves, weighed as Smyth does, with Student's t for the little that is known of it.
Where they differ by far more than was assumed, the assumption counts for next to nothing.

Others on the machine add to that. Where one side had more of them to endure than the
other, the interval is widened by all that they can have taken, in the direction in which
they can have moved the ratio.

Source: Smyth, "Linear models and empirical Bayes methods", Statistical Applications in
Genetics and Molecular Biology 3(1), 2004 (the moderated t).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ipufeed.benchmark.comparing.notes import Note, notes_on
from ipufeed.benchmark.comparing.read_result import Run, run_of
from ipufeed.benchmark.comparing.variance import student_quantile
from ipufeed.benchmark.result.json_text import json_text
from ipufeed.benchmark.result.result import Result

# History: 1, the first one.
COMPARISON_VERSION = 1

BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
# Two runs of the same thing are called different in at most 1 of 100 cases.
CONFIDENCE = 0.99
# For the interval that is shown next to it, as every other one of a result.
SHOWN = 0.95
# A difference counts as one that would have been seen if 95 of 100 comparisons see it.
POWER = 1.645  # standard errors
# The difference for which seconds_needed and runs_needed are given.
WANTED = 0.05
# Standard deviation from run to run of the same thing on a quiet machine, and how many
# degrees of freedom that is worth. Chosen for what both promises leave room for: much less,
# and the same thing is called different; twice as much, and 5 % are missed.
# `python -m benchmarks.confidence` shows whether it fits a machine.
RUN_TO_RUN = 0.006
PRIOR_FREEDOM = 10.0
# The contention of runs under the same load varies by about so much of itself; and what
# that is worth, which is less. Several runs show by themselves how it varies.
CONTENTION_VARIES = 0.2
CONTENTION_FREEDOM = 2.0
MOST_RUNS = 100
# Estimates for runs of other lengths are for runs of at least this length.
LEAST_SECONDS, MOST_SECONDS = 1.0, 86_400.0

Results = Result | Mapping[str, Any] | Sequence[Result | Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came of comparing a new result with a base.

    Attributes:
        verdict: `better`, `worse` or `cannot tell`, with 99 % confidence.
        ratio: The new rate divided by that of the base.
        interval: The ratio's 95 % interval.
        verdict_interval: Its 99 % interval: the verdict is that 1 lies below it, above
            it, or in it.
        smallest_detectable: The smallest difference, as a share, that 95 of 100 such
            comparisons would have seen. None where the runs are too short.
        seconds_needed: Steady seconds of each run, for as many runs as there were, after
            which a difference of 5 % (of the gate's, if there is one) would be seen. None
            where no length is enough: then compare several runs.
        runs_needed: Runs of each, as long as these, after which it would be. None for
            more than 100.
        unit: `elements` or `samples`: what the rates count.
        base, new: names, mean rate and seconds of the runs.
        notes: What to know about it: code, message, and whether it forbids a verdict.
        gate: The verdict of a gate, or None: `allowed_loss` and `verdict`, which is
            `held`, `slower` or `cannot tell`.
    """

    verdict: str
    ratio: float
    interval: tuple[float, float] | None
    verdict_interval: tuple[float, float] | None
    smallest_detectable: float | None
    seconds_needed: float | None
    runs_needed: int | None
    unit: str
    base: dict[str, Any]
    new: dict[str, Any]
    notes: tuple[Note, ...] = ()
    gate: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The comparison as the JSON holds it."""
        return {
            "schema_version": COMPARISON_VERSION,
            **vars(self),
            "notes": [asdict(note) for note in self.notes],
        }

    def to_json(self) -> str:
        """Strict JSON."""
        return json_text(self.to_dict())


def compare(
    base: Results,
    new: Results,
    *,
    allowed_loss: float | None = None,
    base_names: Sequence[str] | None = None,
    new_names: Sequence[str] | None = None,
) -> Comparison:
    """Compares the steady rates of two results, or of several results of each side.

    Args:
        base: A Result, what its JSON holds, or several of either. Measure them alternately
            with those of `new`, so that what changes on the machine changes for both.
        new: Likewise.
        allowed_loss: For a gate: the share of the base's rate that may be lost, in
            [0, 1). It is held if surely less is lost, and failed if surely more is.
            Default: no gate.
        base_names: What to call the results of `base` in messages. Default: their
            datasets' names.
        new_names: Likewise.

    Returns:
        The comparison. Results of different things have a ratio, the verdict `cannot
        tell`, and a note names what differs.

    Raises:
        ComparisonError: (a ValueError) something is not a result, of another version, of a
            dataset that failed, or damaged.
        NothingToCompareError: (a ComparisonError) a result has no rate.
        ValueError: `allowed_loss` is out of range, or there is no result.

    Threads: any.
    """
    if allowed_loss is not None and not 0 <= allowed_loss < 1:
        raise ValueError(f"`allowed_loss` must be in [0, 1), got {allowed_loss}.")
    sides = Sides(
        runs_of("base", base, base_names),
        runs_of("new", new, new_names),
    )
    return sides.compared(allowed_loss)


def runs_of(
    side: str, results: Results, names: Sequence[str] | None
) -> tuple[Run, ...]:
    """The runs of one side."""
    if isinstance(results, (Result, Mapping)):
        results = [results]
    plain = [
        json.loads(result.to_json()) if isinstance(result, Result) else result
        for result in results
    ]
    if not plain:
        raise ValueError(f"`{side}` must have at least one result, got none.")
    if names is None:
        names = [name_in(result, side) for result in plain]
    return tuple(run_of(*pair) for pair in zip(plain, names, strict=True))


def name_in(result: Any, side: str) -> str:
    """The dataset's name, or the side's."""
    dataset = result.get("dataset") if isinstance(result, Mapping) else None
    name = dataset.get("name") if isinstance(dataset, Mapping) else None
    return f"{side} ({name})" if isinstance(name, str) else side


@dataclass(frozen=True)
class Noise:
    """The variance of a log rate from run to run, and what that knowledge is worth.

    Attributes:
        variance: Its root is a share: 0.01 is 1 %.
        freedom: Degrees of freedom of the t that belongs to it.
    """

    variance: float
    freedom: float

    def error(self, base: int, new: int) -> float:
        """The standard error of the log ratio, with this number of runs of each."""
        return math.sqrt(self.variance * (1 / base + 1 / new))


class Sides:
    """The runs of both sides, and what they add up to."""

    def __init__(self, base: tuple[Run, ...], new: tuple[Run, ...]) -> None:
        self.base, self.new = base, new
        self.unit = unit_of(base, new)
        logs = [np.log([self.rate_of(run) for run in side]) for side in (base, new)]
        self.log_ratio = float(logs[1].mean() - logs[0].mean())
        self.freedom = len(base) + len(new) - 2
        self.squares = float(sum(((log - log.mean()) ** 2).sum() for log in logs))

    @property
    def runs(self) -> tuple[Run, ...]:
        """Those of both sides."""
        return (*self.base, *self.new)

    def rate_of(self, run: Run) -> float:
        """In elements or samples per second."""
        return run.rate * (run.samples or 1.0) if self.unit == "samples" else run.rate

    def compared(self, allowed_loss: float | None) -> Comparison:
        """The comparison."""
        notes = notes_on(self.base, self.new, self.unit)
        forbidden = any(note.forbids for note in notes)
        shown, sure, smallest = None, None, None
        seconds, runs = None, None
        if all(run.spread is not None for run in self.runs):
            wanted = -math.log1p(-(allowed_loss or WANTED))
            shown, sure = self.interval(SHOWN), self.interval(CONFIDENCE)
            smallest = math.expm1(
                self.detectable(self.noise(), len(self.base), len(self.new))
            )
            if not forbidden:
                seconds, runs = self.seconds_for(wanted), self.runs_for(wanted)
        return Comparison(
            verdict=CANNOT_TELL if forbidden else verdict_of(sure),
            ratio=math.exp(self.log_ratio),
            interval=shown,
            verdict_interval=sure,
            smallest_detectable=smallest,
            seconds_needed=seconds,
            runs_needed=runs,
            unit=self.unit,
            base=self.described(self.base),
            new=self.described(self.new),
            notes=tuple(notes),
            gate=None
            if allowed_loss is None
            else {
                "allowed_loss": allowed_loss,
                "verdict": CANNOT_TELL if forbidden else gate_of(sure, allowed_loss),
            },
        )

    def described(self, side: tuple[Run, ...]) -> dict[str, Any]:
        """A side for people and programs."""
        rates = [self.rate_of(run) for run in side]
        return {
            "names": [run.name for run in side],
            "rate": float(np.exp(np.log(rates).mean())),
            "rates": rates,
            "seconds": [run.seconds for run in side],
        }

    def interval(self, level: float) -> tuple[float, float]:
        """The ratio's interval."""
        noise = self.noise()
        half = student_quantile(level, noise.freedom) * noise.error(
            len(self.base), len(self.new)
        )
        low, high = self.contended()
        return (
            math.exp(self.log_ratio - half - low),
            math.exp(self.log_ratio + half + high),
        )

    def within(self) -> float:
        """The mean variance that the runs' own windows show."""
        return float(np.mean([run.spread.variance for run in self.runs if run.spread]))

    def noise(self, within: float | None = None) -> Noise:
        """What is known of the variance of a log rate from run to run.

        Args:
            within: Instead of what the windows show: for runs of another length.
        """
        seen = self.within()
        if within is None:
            within = seen
        quiet = within + RUN_TO_RUN**2
        contention = [(CONTENTION_VARIES * run.contention) ** 2 for run in self.runs]
        beside = float(np.mean(contention))
        prior = quiet + beside
        weight = (
            PRIOR_FREEDOM * quiet + CONTENTION_FREEDOM / (1 + self.freedom) * beside
        ) / prior
        if self.freedom == 0:
            return Noise(prior, PRIOR_FREEDOM)
        # What the runs differ by beyond their windows stays, however long they are.
        squares = max(0.0, self.squares + self.freedom * (within - seen))
        # Runs that differ by far more than was expected know better.
        trust = min(1.0, prior * self.freedom / squares) ** 2 if squares > 0 else 1.0
        return Noise(
            (weight * trust * prior + squares) / (weight * trust + self.freedom),
            PRIOR_FREEDOM * trust + self.freedom,
        )

    def contended(self) -> tuple[float, float]:
        """What others can have taken from one side more than from the other.

        To be added below and above the log ratio: without them it may be smaller, if the
        base had more to endure, or larger.
        """
        base, new = (
            float(np.mean([run.contention for run in side]))
            for side in (self.base, self.new)
        )
        return max(0.0, base - new), max(0.0, new - base)

    def detectable(self, noise: Noise, base: int, new: int) -> float:
        """The smallest difference of logarithms that 95 of 100 such comparisons see."""
        quantile = student_quantile(CONFIDENCE, noise.freedom)
        return (quantile + POWER) * noise.error(base, new) + max(self.contended())

    def seconds_for(self, wanted: float) -> float | None:
        """Steady seconds of each run that show a difference of `wanted`; None for never."""

        def seen_after(seconds: float) -> bool:
            within = np.mean(
                [
                    run.spread.variance * (seconds / run.seconds) ** run.spread.slope
                    for run in self.runs
                    if run.spread
                ]
            )
            noise = self.noise(float(within))
            return self.detectable(noise, len(self.base), len(self.new)) <= wanted

        low, high = LEAST_SECONDS, MOST_SECONDS
        if seen_after(low):
            return low
        if not seen_after(high):
            return None
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if seen_after(middle) else (middle, high)
        return high

    def runs_for(self, wanted: float) -> int | None:
        """Runs of each side, as long as these, that show it; None for more than 100."""
        now = self.noise()
        for runs in range(1, MOST_RUNS + 1):
            more = max(0, 2 * runs - 2 - self.freedom)
            noise = Noise(now.variance, now.freedom + more)
            if self.detectable(noise, runs, runs) <= wanted:
                return runs
        return None


def unit_of(base: tuple[Run, ...], new: tuple[Run, ...]) -> str:
    """Samples where they are known and elements have different numbers of them."""
    samples = [run.samples for run in (*base, *new)]
    known = [count for count in samples if count is not None]
    if len(known) < len(samples) or max(known) <= min(known) * (1 + 1e-3):
        return "elements"
    return "samples"


def verdict_of(interval: tuple[float, float] | None) -> str:
    """Where 1 lies."""
    if interval is None or interval[0] <= 1 <= interval[1]:
        return CANNOT_TELL
    return BETTER if interval[0] > 1 else WORSE


def gate_of(interval: tuple[float, float] | None, allowed_loss: float) -> str:
    """Where what is allowed lies."""
    if interval is None:
        return CANNOT_TELL
    if interval[0] >= 1 - allowed_loss:
        return "held"
    return "slower" if interval[1] < 1 - allowed_loss else CANNOT_TELL


def rate_interval(run: Run, level: float) -> tuple[float, float] | None:
    """Elements per second that the next runs of the same thing would give.

    Without the others on the machine they may give more: the upper bound has that in it.
    None where the run is too short.
    """
    if run.spread is None:
        return None
    varies = (CONTENTION_VARIES * run.contention) ** 2
    error = math.sqrt(run.spread.variance + RUN_TO_RUN**2 + varies)
    half = student_quantile(level, PRIOR_FREEDOM) * error
    return run.rate * math.exp(-half), run.rate * math.exp(half + run.contention)
