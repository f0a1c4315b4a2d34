"""What a check of the self-test is, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Row:
    """One known answer, and the one that was measured.

    Attributes:
        what: The answer's name.
        unit: Of the three below, "" for counts, shares and names.
        expected: What it must be: a number, a name, or True.
        measured: What came out.
        allowed: What passes: [from, to] of a number; else only what is expected.
        repeated: Whether it had failed, and this is the second attempt.
    """

    what: str
    unit: str
    expected: Any
    measured: Any
    allowed: tuple[float, float] | None = None
    repeated: bool = False

    @property
    def passed(self) -> bool:
        """Whether it is right."""
        if self.allowed is None:
            return bool(self.measured == self.expected)
        low, high = self.allowed
        # None, and NaN, are within nothing.
        return self.measured is not None and low <= self.measured <= high

    def to_dict(self) -> dict[str, Any]:
        """As the JSON holds it."""
        return {**vars(self), "passed": self.passed}


def exact(what: str, expected: Any, measured: Any) -> Row:
    """An answer that leaves no room."""
    return Row(what, "", expected, measured)


def about(
    what: str, unit: str, expected: float, measured: Any, low: float, high: float
) -> Row:
    """A number that may be off by a share: low and high are ratios to what is expected."""
    return Row(what, unit, expected, measured, (expected * low, expected * high))


@dataclass(frozen=True)
class Check:
    """Some rows that are measured together.

    Attributes:
        name: What --only calls it.
        rows: Measures; True for the shorter way.
    """

    name: str
    rows: Callable[[bool], list[Row]]

    def run(self, quick: bool) -> list[Row]:
        """The rows; where one fails, those of a second attempt: machines have moods.

        An error is a row that fails.
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
