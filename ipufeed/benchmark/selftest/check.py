"""A check of the self-test: rows of expected and measured values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ipufeed.benchmark.result.json_text import JsonObject

Value = float | str | None


@dataclass(frozen=True)
class Row:
    """An expected and a measured value.

    Attributes:
        what: The value's name.
        unit: The unit of the three below, "" for counts, fractions and names.
        expected: A number, a name, or True.
        measured: The measured value.
        allowed: The interval of numbers that pass; None if only the expected value does.
        repeated: Whether the first attempt failed, and this is the second one.
    """

    what: str
    unit: str
    expected: Value
    measured: Value
    allowed: tuple[float, float] | None = None
    repeated: bool = False

    @property
    def passed(self) -> bool:
        """Whether the measured value is allowed; None and NaN are not."""
        if self.allowed is None:
            return self.measured == self.expected
        low, high = self.allowed
        return isinstance(self.measured, (int, float)) and low <= self.measured <= high

    def to_dict(self) -> JsonObject:
        """Returns the row with the keys of the JSON."""
        return {**vars(self), "passed": self.passed}


def exact(what: str, expected: Value, measured: Value) -> Row:
    """Returns a row that passes if both values are equal."""
    return Row(what, "", expected, measured)


def about(
    what: str, unit: str, expected: float, measured: Value, low: float, high: float
) -> Row:
    """Returns a row that passes within `low` to `high` times the expected number."""
    return Row(what, unit, expected, measured, (expected * low, expected * high))


def within(what: str, expected: float, measured: Value, deviation: float) -> Row:
    """Returns a row that passes within `deviation` of the expected fraction."""
    bounds = (expected - deviation, expected + deviation)
    return Row(what, "", expected, measured, bounds)


# Measures; True for shorter runs.
MeasureRows = Callable[[bool], list[Row]]


@dataclass(frozen=True)
class Check:
    """Rows that are measured together.

    Attributes:
        name: Its name for --only.
        rows: Measures the rows.
    """

    name: str
    rows: MeasureRows

    def run(self, quick: bool) -> list[Row]:
        """Returns the rows; of a second attempt if one fails, as on a busy machine.

        An exception is a row that fails.
        """
        rows = self._attempt(quick)
        if all(row.passed for row in rows):
            return rows
        return [replace(row, repeated=True) for row in self._attempt(quick)]

    def _attempt(self, quick: bool) -> list[Row]:
        try:
            return self.rows(quick)
        except Exception as error:
            message = (str(error).strip().splitlines() or [""])[0]
            return [exact(self.name, "no error", f"{type(error).__name__}: {message}")]
