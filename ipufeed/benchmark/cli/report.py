"""python -m ipufeed.benchmark report: reports of a result that was stored as JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ipufeed.benchmark.cli.options.report import add_report_options, asked_for
from ipufeed.render.files import why_not_writable
from ipufeed.render.terminal import HelpFormatter

OK, BAD_INPUT = 0, 2
MOST_BYTES = 256 << 20  # what is larger is not a result


class StoredResultError(ValueError):
    """A file that holds no result; the message names it and the cause."""


def main(arguments: list[str]) -> int:
    """Runs the subcommand and returns its exit code; raises SystemExit as argparse does."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    asked = asked_for(options)
    if not asked:
        parser.error(
            "nothing to write: give --html FILE, --parquet FILE or --trace FILE."
        )
    for kind, path in asked.items():
        reason = why_not_writable(path)
        if reason is not None:
            parser.error(f"--{kind} {reason}")
    try:
        result = read_result(Path(options.result))
    except StoredResultError as error:
        parser.error(str(error))
    from ipufeed.benchmark.report.files import write_reports

    failures = write_reports(result, asked)
    if failures:
        parser.error(" ".join(failures))
    return OK


def build_parser() -> argparse.ArgumentParser:
    """The subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="python -m ipufeed.benchmark report",
        description="Makes the reports of a run from its JSON. A trace has what the run "
        "was like over time; what each thread did is only in one that was recorded.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "result", metavar="RESULT.json", help="as --json has written it"
    )
    add_report_options(parser)
    return parser


def read_result(path: Path) -> dict[str, Any]:
    """The result in a file.

    Raises:
        StoredResultError: It cannot be read, or is not a result.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StoredResultError(
                f"{path} is larger than {MOST_BYTES >> 20} MiB: it is not a result."
            )
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoredResultError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, StoredResultError):
            raise
        raise StoredResultError(f"{path} is not JSON: {error}.") from None
    if not isinstance(result, dict) or "schema_version" not in result:
        raise StoredResultError(
            f"{path} is not a result of this command: it must be a JSON object with "
            "`schema_version`. Give a file that --json has written."
        )
    return result
