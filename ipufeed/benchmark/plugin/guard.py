"""Measures a dataset in a test, and compares it with a budget and an earlier result.

The plugin itself is pytest_ipufeed.py next to the package; this module does not use pytest.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from ipufeed.benchmark.comparing.allowed_loss import parse_allowed_loss
from ipufeed.benchmark.comparing.compare import (
    CONFIDENCE,
    Comparison,
    compare,
    rate_interval,
)
from ipufeed.benchmark.comparing.read_result import read_result, run_of
from ipufeed.benchmark.comparing.text import verdict_lines
from ipufeed.benchmark.comparing.verdicts import CANNOT_TELL, HELD, SLOWER
from ipufeed.benchmark.measuring.measure import measure
from ipufeed.benchmark.plugin.result_names import file_name
from ipufeed.benchmark.report.failure import sentence_of
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.settings import Settings
from ipufeed.errors import IpufeedError, NothingToCompareError
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import number, percent


class NotMeasuredError(IpufeedError):
    """The dataset failed, or has no rate: there is nothing to compare with a budget."""


MISSED = "missed"  # verdict on a budget, next to HELD and CANNOT_TELL


@dataclass(frozen=True)
class Budget:
    """The rate that a pipeline must have.

    Attributes:
        rate: Per second.
        unit: `samples` or `elements`.
        within: The fraction of the rate that may be missing.
    """

    rate: float
    unit: str
    within: float

    @classmethod
    def of(
        cls,
        *,
        samples_per_second: float | None = None,
        elements_per_second: float | None = None,
        within: str | float = 0.0,
    ) -> Budget:
        """Returns the budget of a marker's arguments.

        Raises:
            TypeError, ValueError: They are not one rate above 0.
            argparse.ArgumentTypeError: `within` is not a fraction, as "5%".
        """
        rates = {"samples": samples_per_second, "elements": elements_per_second}
        given = {unit: value for unit, value in rates.items() if value is not None}
        if len(given) != 1:
            raise TypeError(
                "give either `samples_per_second` or `elements_per_second`, got "
                f"{'both' if given else 'neither'}."
            )
        ((unit, value),) = given.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"`{unit}_per_second` must be a number, got {value!r}.")
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"`{unit}_per_second` must be above 0, got {value!r}.")
        return cls(float(value), unit, parse_allowed_loss(str(within)))

    @property
    def least(self) -> float:
        """The lowest rate that is within the budget."""
        return self.rate * (1 - self.within)

    def __str__(self) -> str:
        less = f" less {percent(self.within)}" if self.within else ""
        return f"{number(self.rate)} {self.unit}/s{less}"


@dataclass(frozen=True)
class _Outcome:
    """The outcome of one measurement.

    Attributes:
        result: The result.
        line: The summary's line.
        failure: The reason why the test fails, or None.
        doubt: The verdict that could not be determined, or None.
        compared: Whether there was an earlier result to compare with.
    """

    result: Result
    line: str
    failure: str | None
    doubt: str | None
    compared: bool


class Checker:
    """The measurements of one test.

    Args:
        name: The test's name.
        budget: The rate that the test must reach, or None.
        folder: The folder for results, or None.
        earlier: The folder with results of an earlier run, or None.
        allowed_loss: Fraction of an earlier rate that may be lost.
    """

    def __init__(
        self,
        name: str,
        budget: Budget | None,
        folder: Path | None,
        earlier: Path | None,
        allowed_loss: float,
    ) -> None:
        self.measured = 0
        self._name, self._budget = name, budget
        self._folder, self._earlier = folder, earlier
        self._allowed_loss = allowed_loss

    def measure(self, dataset: object, settings: Settings) -> _Outcome:
        """Measures a dataset, writes the result, and compares it.

        Raises:
            NotMeasuredError: The dataset failed, or has no rate.
            ComparisonError: The earlier result cannot be compared.
        """
        result = measure(dataset, settings, name=self._name)
        self.measured += 1
        file = file_name(self._name, self.measured)
        comparison = self._compared(result, file)
        if comparison is not None:
            result = dataclasses.replace(result, comparison=comparison.to_dict())
        if self._folder is not None:
            result.write(self._folder / file)
        if result.error is not None:
            lines = map(printable, sentence_of(result.error).splitlines())
            raise NotMeasuredError(
                f"the dataset failed at element {result.error['element']} (from 0) with "
                f"{result.error['type']}: " + "\n".join(lines)
            )
        parts, failures, doubts = [_measured_rate(result)], [], []
        if self._budget is not None:
            verdict, sentence = self._verdict(result, self._budget)
            parts.append(f"budget {verdict}")
            failures += [sentence] if verdict == MISSED else []
            doubts += [sentence] if verdict == CANNOT_TELL else []
        if comparison is not None and comparison.gate is not None:
            sentence = "\n".join(verdict_lines(comparison))
            verdict = comparison.gate["verdict"]
            parts.append(f"{comparison.ratio:.3f} of the earlier rate: {verdict}")
            failures += [sentence] if verdict == SLOWER else []
            doubts += [sentence] if verdict == CANNOT_TELL else []
        elif self._earlier is not None:
            parts.append("no earlier result")
        return _Outcome(
            result,
            f"{printable(self._name)}: {', '.join(parts)}",
            "\n".join(failures) or None,
            "\n".join(doubts) or None,
            comparison is not None,
        )

    def _compared(self, result: Result, file: str) -> Comparison | None:
        """The comparison with the same measurement of an earlier run of the tests."""
        if self._earlier is None or result.error is not None:
            return None
        path = self._earlier / file
        if not path.exists():
            return None
        return compare(
            read_result(path),
            result,
            allowed_loss=self._allowed_loss,
            base_names=[str(path)],
            new_names=["this run"],
        )

    def _verdict(self, result: Result, budget: Budget) -> tuple[str, str]:
        """`held`, `missed` or `cannot tell`, and a sentence."""
        try:
            run = run_of(result.to_dict(), self._name)
        except NothingToCompareError as error:
            raise NotMeasuredError(
                f"{error} There is nothing to compare with {budget}."
            ) from error
        scale = 1.0
        if budget.unit == "samples":
            if run.samples is None:
                raise NotMeasuredError(
                    f"the budget is {budget}, and the number of samples in an "
                    "element is unknown: give feed_benchmark() `items_per_element`."
                )
            scale = run.samples
        interval = rate_interval(run, CONFIDENCE)
        if interval is None:
            verdict, certainty = CANNOT_TELL, "the run is too short for its error"
        else:
            low, high = (scale * bound for bound in interval)
            verdict = CANNOT_TELL
            if low >= budget.least:
                verdict = HELD
            elif high < budget.least:
                verdict = MISSED
            certainty = f"with 99 % confidence from {number(low)} to {number(high)}"
        return verdict, (
            f"budget {verdict}: {number(scale * run.rate)} {budget.unit}/s, {certainty}; "
            f"the budget is {budget}."
        )


def _measured_rate(result: Result) -> str:
    if result.steady is None:
        return "no rate"
    return f"{number(result.steady['elements_per_second'])} elements/s"
