"""`--compare`: compares a run with the results of earlier runs, the bases.

Bases are read and checked before anything is measured. numpy is imported only if there is
a base.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipufeed.benchmark.cli.options.command import Command
from ipufeed.benchmark.cli.options.compare import CODES
from ipufeed.benchmark.result.json_text import JsonObject
from ipufeed.errors import ComparisonError, NothingToCompareError
from ipufeed.exit_codes import BAD_INPUT, NOTHING_MEASURED, OK
from ipufeed.render.terminal import wrap

if TYPE_CHECKING:
    from ipufeed.benchmark.result.result import Result


@dataclass(frozen=True)
class _Found:
    """The outcome of a comparison.

    Attributes:
        result: The measured result, with its `comparison` if the comparison succeeded.
        lines: The verdict, or the reason why there is none, as text.
        code: The exit code, if the run itself succeeded.
        failure: Whether the comparison failed.
    """

    result: Result
    lines: list[str]
    code: int
    failure: bool


@dataclass(frozen=True)
class Base:
    """The results of earlier runs, and their files' names."""

    results: Sequence[JsonObject]
    names: list[str]
    allowed_loss: float | None

    def compared_with(self, result: Result) -> _Found:
        """Compares the bases with a new result."""
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
            return _Found(result, lines, code_of(error), True)
        gate = comparison.gate
        return _Found(
            dataclasses.replace(result, comparison=comparison.to_dict()),
            verdict_lines(comparison),
            OK if gate is None else CODES[gate["verdict"]],
            False,
        )


def read_bases(command: Command) -> Base | None:
    """Reads the files of `--compare`; returns None without that option.

    Raises:
        ComparisonError: A file does not hold a result that can be compared.
    """
    names = list(command.compare)
    if not names:
        return None
    from ipufeed.benchmark.comparing.read_result import read_result, run_of

    results = [read_result(name) for name in names]
    for result, name in zip(results, names, strict=True):
        run_of(result, name)  # raises now, not after ten seconds of measuring
    return Base(results, names, command.allowed_loss)


def code_of(error: ComparisonError) -> int:
    """Returns the exit code of a comparison that failed."""
    return NOTHING_MEASURED if isinstance(error, NothingToCompareError) else BAD_INPUT
