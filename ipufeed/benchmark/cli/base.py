"""`--compare`: holds a run that is about to be measured against results of earlier ones.

The bases are read, and refused, before anything is measured. numpy is imported only where
there is a base.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipufeed.benchmark.cli.options.command import Command
from ipufeed.benchmark.cli.options.compare import (
    BAD_INPUT,
    CODES,
    HELD,
    NOTHING_MEASURED,
)
from ipufeed.errors import ComparisonError, NothingToCompareError
from ipufeed.render.terminal import wrap

if TYPE_CHECKING:
    from ipufeed.benchmark.result.result import Result


@dataclass(frozen=True)
class Found:
    """What came of it.

    Attributes:
        result: The measured result, with its `comparison` where there is one.
        lines: For people.
        code: The exit code of a run that went well otherwise.
        failure: Whether there was nothing to compare.
    """

    result: Result
    lines: list[str]
    code: int
    failure: bool


@dataclass(frozen=True)
class Base:
    """The results to compare with, and their files' names."""

    results: Sequence[Mapping[str, Any]]
    names: list[str]
    allowed_loss: float | None

    def compared_with(self, result: Result) -> Found:
        """Compares them with what was measured now."""
        from ipufeed.benchmark.comparing.compare import compare
        from ipufeed.benchmark.comparing.text import verdict_lines

        try:
            comparison = compare(
                self.results,
                result,
                allowed_loss=self.allowed_loss,
                base_names=self.names,
                new_names=["this run"],
            )
        except ComparisonError as error:
            lines = wrap(f"ipufeed.benchmark: not compared: {error}")
            return Found(result, lines, code_of(error), True)
        gate = comparison.gate
        return Found(
            dataclasses.replace(result, comparison=comparison.to_dict()),
            verdict_lines(comparison),
            HELD if gate is None else CODES[gate["verdict"]],
            False,
        )


def read_bases(command: Command) -> Base | None:
    """What `--compare` names, or None where it was not given.

    Raises:
        ComparisonError: A file holds no result that can be compared.
    """
    names = list(command.compare)
    if not names:
        return None
    from ipufeed.benchmark.comparing.read_result import read_result, run_of

    results = [read_result(name) for name in names]
    for result, name in zip(results, names, strict=True):
        run_of(result, name)  # refuses what could not be compared ten seconds later
    return Base(results, names, command.allowed_loss)


def code_of(error: ComparisonError) -> int:
    """The exit code for what could not be compared."""
    return NOTHING_MEASURED if isinstance(error, NothingToCompareError) else BAD_INPUT
