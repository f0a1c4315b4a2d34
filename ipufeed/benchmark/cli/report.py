"""python -m ipufeed.benchmark report: makes the reports of a stored result."""

from __future__ import annotations

import argparse

from ipufeed.benchmark.cli.options.report import (
    add_report_options,
    check_different,
    reports_of,
)
from ipufeed.errors import ComparisonError
from ipufeed.render.files import why_not_writable
from ipufeed.render.terminal import HelpFormatter, Parser


def main(arguments: list[str]) -> int:
    """Runs the subcommand and returns its exit code; raises SystemExit as argparse does."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    # Unlike a run's, the stdout of this command has nothing else.
    reports = {
        kind: "/dev/stdout" if path == "-" else path
        for kind, path in reports_of(options).items()
    }
    if not reports:
        parser.error(
            "nothing to write: give --html FILE, --parquet FILE or --trace FILE."
        )
    for kind, path in reports.items():
        reason = why_not_writable(path)
        if reason is not None:
            parser.error(f"--{kind} {reason}")
    written = {f"--{kind}": path for kind, path in reports.items()}
    check_different(parser, {"the result": options.result, **written})
    from ipufeed.benchmark.comparing.read_result import read_result
    from ipufeed.benchmark.report.files import write_reports

    try:
        result = read_result(options.result)
    except ComparisonError as error:
        parser.error(str(error))
    failures = write_reports(result, reports)
    if failures:
        parser.error(" ".join(failures))
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of `report`."""
    parser = Parser(
        prog="python -m ipufeed.benchmark report",
        description="Makes the reports of a run from its JSON. A trace shows the run over "
        "time; the spans of each thread are only in a trace that was recorded during the "
        "run. FILE can be - for stdout.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "result", metavar="RESULT.json", help="as --json has written it"
    )
    add_report_options(parser)
    return parser
