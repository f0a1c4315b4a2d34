"""python -m ipufeed.benchmark compare: compares two results, or several of each."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING

from ipufeed.benchmark.cli.base import code_of
from ipufeed.benchmark.cli.options.compare import (
    CODES,
    add_gate,
    with_negative_values,
)
from ipufeed.benchmark.process.streams import open_missing_streams, print_message
from ipufeed.errors import ComparisonError
from ipufeed.exit_codes import BAD_INPUT, OK
from ipufeed.render.terminal import HelpFormatter, Parser

if TYPE_CHECKING:
    from ipufeed.benchmark.comparing.compare import Comparison

COMMAND = "ipufeed.benchmark compare"
EPILOG = """\
exit codes:
  0    compared; with --fail-if-slower: held
  1    --fail-if-slower: surely slower than allowed
  2    bad input: options, a file that is not a result, a dataset that failed
  3    --fail-if-slower: cannot tell
  4    nothing was measured: a result has no rate

examples:
  python -m ipufeed.benchmark compare base.json new.json
  python -m ipufeed.benchmark compare base.json new.json --fail-if-slower 5%
  python -m ipufeed.benchmark compare base-*.json -- new-*.json
"""


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of `compare`."""
    parser = Parser(
        prog="python -m ipufeed.benchmark compare",
        usage="%(prog)s BASE.json NEW.json [option ...]\n"
        "       %(prog)s BASE ... -- NEW ... [option ...]",
        description=textwrap.dedent(
            """\
            Reports whether a new result is better or worse than a base, or that it
            cannot tell, and the smallest difference that it could have detected.

            stdout is the comparison as JSON and nothing else; its summary goes to
            stderr. Several runs of each, measured alternately, detect smaller
            differences."""
        ),
        epilog=EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "results",
        nargs="*",
        metavar="RESULT.json",
        help="files that --json has written: one of the base and a new one; with `--` "
        "between them, several of each",
    )
    add_gate(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="nothing on stderr but errors"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Runs `compare` with its own arguments; returns the exit code."""
    open_missing_streams()
    parser = build_parser()
    options, base, new = _split(parser, with_negative_values(arguments))
    from ipufeed.benchmark.comparing.text import verdict_lines

    try:
        comparison = _compare_files(base, new, options.allowed_loss)
    except ComparisonError as error:
        print_message(str(error), COMMAND)
        return code_of(error)
    try:
        print(comparison.to_json(), flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        sys.stdout = None  # or Python would flush it again
    except OSError as error:
        reason = error.strerror or error
        print_message(f"cannot write to stdout: {reason}.", COMMAND)
        return BAD_INPUT
    if not options.quiet:
        print("\n".join(verdict_lines(comparison)), file=sys.stderr, flush=True)
    return OK if comparison.gate is None else CODES[comparison.gate["verdict"]]


def _split(
    parser: argparse.ArgumentParser, arguments: list[str]
) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Returns the options, the files of the base, and those of the new runs."""
    if "--" not in arguments:
        options = parser.parse_intermixed_args(arguments)
        if len(options.results) != 2:
            parser.error(
                f"give one base and one new result, got {len(options.results)} file(s). "
                "With several of each, write `--` between those of the base and the new."
            )
        return options, options.results[:1], options.results[1:]
    border = arguments.index("--")
    options = parser.parse_intermixed_args(arguments[:border])
    base = options.results
    del options.results  # or argparse would append to it
    options = parser.parse_intermixed_args(arguments[border + 1 :], options)
    if not base or not options.results:
        parser.error("there must be at least one result on either side of `--`.")
    return options, base, options.results


def _compare_files(
    base: list[str], new: list[str], allowed_loss: float | None
) -> Comparison:
    from ipufeed.benchmark.comparing.compare import compare
    from ipufeed.benchmark.comparing.read_result import read_result

    return compare(
        [read_result(path) for path in base],
        [read_result(path) for path in new],
        allowed_loss=allowed_loss,
        base_names=base,
        new_names=new,
    )
