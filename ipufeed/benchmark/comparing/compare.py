"""Compares two results, or several of each: better, worse, or cannot tell.

    result --> read_result.py: rate, windows --> variance.py: the variance of each rate
                                             |
    rates of base, rates of new ----------> ratio, interval --> verdict

Logarithms of rates are compared. A rate has two variances. That within the run is
estimated from its windows. That from run to run (placement of threads and memory, the
CPU's frequency, the path of AUTOTUNE) is not visible in one run: with one run of each it
is assumed, RUN_TO_RUN; with several it is estimated, weighed against that prior as Smyth
does, with Student's t for the remaining degrees of freedom. If the runs differ by far more
than assumed, the prior gets almost no weight.

The load of other processes adds to that. If one side had more of it than the other, the
interval is widened by all that it can have cost, in the direction in which it can have
moved the ratio.

Source: Smyth, "Linear models and empirical Bayes methods", Statistical Applications in
Genetics and Molecular Biology 3(1), 2004 (the moderated t).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np

from ipufeed.benchmark.comparing import verdicts
from ipufeed.benchmark.comparing.notes import Note, notes_on
from ipufeed.benchmark.comparing.read_result import ComparedRun, run_of
from ipufeed.benchmark.comparing.variance import student_quantile
from ipufeed.benchmark.comparing.verdicts import CANNOT_TELL
from ipufeed.benchmark.result.json_text import JsonObject, json_text
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import ComparisonSection

# History: 1, the first one.
COMPARISON_VERSION = 1

# Two runs of the same pipeline are called different in at most 1 of 100 cases.
CONFIDENCE = 0.99
# For the interval that is shown next to it, as every other one of a result.
SHOWN = 0.95
# A difference is detectable if 95 of 100 comparisons detect it.
POWER = 1.645  # standard errors
# The difference for which seconds_needed and runs_needed are computed.
WANTED = 0.05
# Run-to-run standard deviation of one pipeline on a quiet machine, and the degrees of
# freedom of that prior. Chosen between two errors: with much less, equal pipelines are
# called different; with twice as much, a difference of 5 % is missed.
# `python -m benchmarks.confidence` shows whether it fits a machine.
RUN_TO_RUN = 0.006
PRIOR_FREEDOM = 10.0
# The contention of runs under the same load varies by about this fraction of itself, a
# prior of few degrees of freedom: several runs show themselves how it varies.
CONTENTION_VARIES = 0.2
CONTENTION_FREEDOM = 2.0
MOST_RUNS = 100
# Estimates for runs of other lengths are for runs of at least this length.
LEAST_SECONDS, MOST_SECONDS = 1.0, 86_400.0

Results = Result | Mapping[str, object] | Sequence[Result | Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of a new result with a base.

    Attributes:
        verdict: `better`, `worse` or `cannot tell`, with 99 % confidence.
        ratio: The new rate divided by that of the base.
        interval: The ratio's 95 % interval.
        verdict_interval: Its 99 % interval. The verdict is `better` if 1 lies below it,
            `worse` if above, else `cannot tell`.
        smallest_detectable: The smallest difference, as a fraction, that 95 of 100 such
            comparisons would detect. None if the runs are too short.
        seconds_needed: Steady seconds of each run, with the same number of runs, to detect
            a difference of 5 % (or of the gate's). None if no length is enough: then
            compare several runs.
        runs_needed: Runs of each, of the same length, to detect it. None for more than
            100.
        unit: `elements` or `samples`: what the rates count.
        base, new: names, mean rate and seconds of the runs.
        notes: Facts to know about it: code, message, and whether it forbids a verdict.
        gate: None without a gate, else `allowed_loss` and `verdict`, which is `held`,
            `slower` or `cannot tell`.
    """

    verdict: str
    ratio: float
    interval: tuple[float, float] | None
    verdict_interval: tuple[float, float] | None
    smallest_detectable: float | None
    seconds_needed: float | None
    runs_needed: int | None
    unit: str
    base: JsonObject
    new: JsonObject
    notes: tuple[Note, ...] = ()
    gate: JsonObject | None = None

    def to_dict(self) -> ComparisonSection:
        """Returns the comparison with the keys of the JSON."""
        notes = [asdict(note) for note in self.notes]
        found = {"schema_version": COMPARISON_VERSION, **vars(self), "notes": notes}
        return cast(ComparisonSection, found)

    def to_json(self) -> str:
        """Returns strict JSON."""
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
        base: A Result, its JSON as a dict, or several of either. Measure them alternately
            with those of `new`, so that changes of the machine affect both.
        new: Likewise.
        allowed_loss: For a gate: the fraction of the base's rate that may be lost, in
            [0, 1). The gate is held if surely less is lost, and failed if surely more is.
            Default: no gate.
        base_names: Names of the results of `base` in messages. Default: their datasets'
            names.
        new_names: Likewise.

    Returns:
        The comparison. Results that are not comparable have a ratio, the verdict `cannot
        tell`, and a note that names the difference.

    Raises:
        ComparisonError: (a ValueError) a value is not a result, is of another version or
            of a dataset that failed, or is damaged.
        NothingToCompareError: (a ComparisonError) a result has no rate.
        ValueError: `allowed_loss` is out of range, or one side is empty.

    Threads: any.
    """
    if allowed_loss is not None and not 0 <= allowed_loss < 1:
        raise ValueError(f"`allowed_loss` must be in [0, 1), got {allowed_loss}.")
    sides = _Sides(
        _runs_of("base", base, base_names),
        _runs_of("new", new, new_names),
    )
    return sides.compared(allowed_loss)


def _runs_of(
    side: str, results: Results, names: Sequence[str] | None
) -> tuple[ComparedRun, ...]:
    if isinstance(results, (Result, Mapping)):
        results = [results]
    plain: list[Mapping[str, object]] = [
        json.loads(result.to_json()) if isinstance(result, Result) else result
        for result in results
    ]
    if not plain:
        raise ValueError(f"`{side}` must have at least one result, got none.")
    if names is None:
        names = [_name_in(result, side) for result in plain]
    return tuple(run_of(*pair) for pair in zip(plain, names, strict=True))


def _name_in(result: object, side: str) -> str:
    dataset = result.get("dataset") if isinstance(result, Mapping) else None
    name = dataset.get("name") if isinstance(dataset, Mapping) else None
    return f"{side} ({name})" if isinstance(name, str) else side


@dataclass(frozen=True)
class Noise:
    """The run-to-run variance of a log rate.

    Attributes:
        variance: Its root is a fraction of the rate: 0.01 is 1 %.
        freedom: The degrees of freedom of its Student's t.
    """

    variance: float
    freedom: float

    def error(self, base: int, new: int) -> float:
        """Returns the standard error of the log ratio, with these numbers of runs."""
        return math.sqrt(self.variance * (1 / base + 1 / new))


class _Sides:
    """The runs of base and new, and the statistics of their log rates."""

    def __init__(
        self, base: tuple[ComparedRun, ...], new: tuple[ComparedRun, ...]
    ) -> None:
        self.base, self.new = base, new
        self.unit = _unit_of(base, new)
        logs = [np.log([self._rate_of(run) for run in side]) for side in (base, new)]
        self.log_ratio = float(logs[1].mean() - logs[0].mean())
        self.freedom = len(base) + len(new) - 2
        self.squares = float(sum(((log - log.mean()) ** 2).sum() for log in logs))

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        """The runs of both sides."""
        return (*self.base, *self.new)

    def _rate_of(self, run: ComparedRun) -> float:
        return run.rate * (run.samples or 1.0) if self.unit == "samples" else run.rate

    def compared(self, allowed_loss: float | None) -> Comparison:
        """Returns the comparison, with a gate if `allowed_loss` is given."""
        notes = notes_on(self.base, self.new, self.unit)
        forbidden = any(note.forbids for note in notes)
        shown, sure, smallest = None, None, None
        seconds, runs = None, None
        if all(run.log_variance is not None for run in self.runs):
            wanted = -math.log1p(-(allowed_loss or WANTED))
            shown, sure = self._interval(SHOWN), self._interval(CONFIDENCE)
            smallest = math.expm1(
                self._detectable(self._noise(), len(self.base), len(self.new))
            )
            if not forbidden:
                seconds, runs = self._seconds_for(wanted), self._runs_for(wanted)
        return Comparison(
            verdict=CANNOT_TELL if forbidden else _verdict_of(sure),
            ratio=math.exp(self.log_ratio),
            interval=shown,
            verdict_interval=sure,
            smallest_detectable=smallest,
            seconds_needed=seconds,
            runs_needed=runs,
            unit=self.unit,
            base=self._described(self.base),
            new=self._described(self.new),
            notes=tuple(notes),
            gate=None
            if allowed_loss is None
            else {
                "allowed_loss": allowed_loss,
                "verdict": CANNOT_TELL if forbidden else _gate_of(sure, allowed_loss),
            },
        )

    def _described(self, side: tuple[ComparedRun, ...]) -> JsonObject:
        rates = [self._rate_of(run) for run in side]
        return {
            "names": [run.name for run in side],
            "rate": float(np.exp(np.log(rates).mean())),
            "rates": rates,
            "seconds": [run.seconds for run in side],
        }

    def _interval(self, level: float) -> tuple[float, float]:
        noise = self._noise()
        half = student_quantile(level, noise.freedom) * noise.error(
            len(self.base), len(self.new)
        )
        low, high = self._contention_margins()
        return (
            math.exp(self.log_ratio - half - low),
            math.exp(self.log_ratio + half + high),
        )

    def _within(self) -> float:
        """Returns the mean variance within the runs, estimated from their windows."""
        return float(
            np.mean([run.log_variance.value for run in self.runs if run.log_variance])
        )

    def _noise(self, within: float | None = None) -> Noise:
        """Returns the run-to-run variance of a log rate: the prior, weighed with the runs.

        Args:
            within: The variance within runs of another length. Default: that of the runs.
        """
        estimated = self._within()
        if within is None:
            within = estimated
        quiet = within + RUN_TO_RUN**2
        contention = float(
            np.mean([(CONTENTION_VARIES * run.contention) ** 2 for run in self.runs])
        )
        prior = quiet + contention
        weight = (
            PRIOR_FREEDOM * quiet + CONTENTION_FREEDOM / (1 + self.freedom) * contention
        ) / prior
        if self.freedom == 0:
            return Noise(prior, PRIOR_FREEDOM)
        # The variance between the runs does not depend on their length.
        squares = max(0.0, self.squares + self.freedom * (within - estimated))
        # If the runs differ by far more than the prior, they count more than the prior.
        trust = min(1.0, prior * self.freedom / squares) ** 2 if squares > 0 else 1.0
        return Noise(
            (weight * trust * prior + squares) / (weight * trust + self.freedom),
            PRIOR_FREEDOM * trust + self.freedom,
        )

    def _contention_margins(self) -> tuple[float, float]:
        """Returns the widening of the log ratio's interval at both ends, for contention.

        Without contention the ratio may be smaller if the base had more of it, else larger.
        """
        base, new = (
            float(np.mean([run.contention for run in side]))
            for side in (self.base, self.new)
        )
        return max(0.0, base - new), max(0.0, new - base)

    def _detectable(self, noise: Noise, base: int, new: int) -> float:
        """Returns the smallest log ratio that 95 of 100 such comparisons detect."""
        quantile = student_quantile(CONFIDENCE, noise.freedom)
        error = (quantile + POWER) * noise.error(base, new)
        return error + max(self._contention_margins())

    def _seconds_for(self, wanted: float) -> float | None:
        """Steady seconds of each run to detect a log ratio of `wanted`; None for never."""

        def detects_after(seconds: float) -> bool:
            within = np.mean(
                [
                    run.log_variance.value
                    * (seconds / run.seconds) ** run.log_variance.slope
                    for run in self.runs
                    if run.log_variance
                ]
            )
            noise = self._noise(float(within))
            return self._detectable(noise, len(self.base), len(self.new)) <= wanted

        low, high = LEAST_SECONDS, MOST_SECONDS
        if detects_after(low):
            return low
        if not detects_after(high):
            return None
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if detects_after(middle) else (middle, high)
        return high

    def _runs_for(self, wanted: float) -> int | None:
        """Runs of each side, of the same length, to detect it; None for more than 100."""
        now = self._noise()
        for runs in range(1, MOST_RUNS + 1):
            more = max(0, 2 * runs - 2 - self.freedom)
            noise = Noise(now.variance, now.freedom + more)
            if self._detectable(noise, runs, runs) <= wanted:
                return runs
        return None


def _unit_of(base: tuple[ComparedRun, ...], new: tuple[ComparedRun, ...]) -> str:
    """Samples if they are known and the elements' numbers of them differ."""
    samples = [run.samples for run in (*base, *new)]
    known = [count for count in samples if count is not None]
    if len(known) < len(samples) or max(known) <= min(known) * (1 + 1e-3):
        return "elements"
    return "samples"


def _verdict_of(interval: tuple[float, float] | None) -> str:
    """Returns the verdict from where 1.0 lies in the ratio's confidence interval."""
    if interval is None or interval[0] <= 1 <= interval[1]:
        return CANNOT_TELL
    return verdicts.BETTER if interval[0] > 1 else verdicts.WORSE


def _gate_of(interval: tuple[float, float] | None, allowed_loss: float) -> str:
    """Returns the verdict from where 1 - allowed_loss lies in the interval."""
    if interval is None:
        return CANNOT_TELL
    if interval[0] >= 1 - allowed_loss:
        return verdicts.HELD
    return verdicts.SLOWER if interval[1] < 1 - allowed_loss else CANNOT_TELL


def rate_interval(run: ComparedRun, level: float) -> tuple[float, float] | None:
    """Returns the interval of elements per second that further runs would have.

    The upper bound includes the rate without the load of other processes. None if the run
    is too short.
    """
    if run.log_variance is None:
        return None
    varies = (CONTENTION_VARIES * run.contention) ** 2
    error = math.sqrt(run.log_variance.value + RUN_TO_RUN**2 + varies)
    half = student_quantile(level, PRIOR_FREEDOM) * error
    return run.rate * math.exp(-half), run.rate * math.exp(half + run.contention)
