"""The options --compare and --fail-if-slower, and their exit codes; without TensorFlow."""

from __future__ import annotations

import argparse
import re

from ipufeed.benchmark.comparing.allowed_loss import parse_allowed_loss
from ipufeed.benchmark.comparing.verdicts import CANNOT_TELL, HELD, SLOWER
from ipufeed.exit_codes import FOUND_BAD, OK, UNDECIDED

# By the verdict of a gate.
CODES = {HELD: OK, SLOWER: FOUND_BAD, CANNOT_TELL: UNDECIDED}

EXIT_CODES = """\
  1    --fail-if-slower: surely slower than allowed; 3: cannot tell"""


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """Adds --compare and --fail-if-slower."""
    group = parser.add_argument_group("compare with an earlier result")
    group.add_argument(
        "--compare",
        action="append",
        default=[],
        metavar="BASE.json",
        help="report whether this run is better or worse than a result that --json has "
        "written; may be repeated for several runs of the base",
    )
    add_gate(group)


def add_gate(group: argparse._ActionsContainer) -> None:
    """Adds --fail-if-slower."""
    group.add_argument(
        "--fail-if-slower",
        type=parse_allowed_loss,
        metavar="LOSS",
        dest="allowed_loss",
        help="a gate, as 5%%: exit code 0 if surely less of the base's rate is lost, 1 if "
        "surely more is, 3 if that cannot be determined",
    )


def with_negative_values(arguments: list[str]) -> list[str]:
    """Joins `--fail-if-slower -5%` into `--fail-if-slower=-5%`.

    argparse parses an argument that begins with a minus, unless it is a plain number, as
    an option; its error would not explain what the value must be.
    """
    joined: list[str] = []
    for argument in arguments:
        if joined and re.match(r"-\.?\d", argument) and _is_bare_option(joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _is_bare_option(argument: str) -> bool:
    return argument.startswith("--") and len(argument) > 2 and "=" not in argument
