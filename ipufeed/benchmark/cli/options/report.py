"""The options for reports; without TensorFlow."""

from __future__ import annotations

import argparse
import itertools

from ipufeed.render.files import same_file

# Option -> its help; each is a module of ipufeed.benchmark.report.
REPORTS = {
    "parquet": "the run's windows of time as a table, for pandas, DuckDB and the like",
    "trace": "a timeline for https://ui.perfetto.dev; gzip if FILE ends in .gz",
    "html": "one page with pictures, for a browser: no network, no scripts",
}


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Adds --parquet, --trace and --html."""
    group = parser.add_argument_group("reports of the same run")
    for name, text in REPORTS.items():
        group.add_argument(f"--{name}", metavar="FILE", help=text)


def reports_of(options: argparse.Namespace) -> dict[str, str]:
    """Returns the path of each report that the options name."""
    paths = {name: getattr(options, name) for name in REPORTS}
    return {name: path for name, path in paths.items() if path is not None}


def check_different(parser: argparse.ArgumentParser, files: dict[str, str]) -> None:
    """Refuses two outputs, or an input and an output, that are the same file.

    Args:
        parser: Ends the process with a message.
        files: What is written, or read, and where: an option or a name, and its path.
    """
    for (one, path), (other, same) in itertools.combinations(files.items(), 2):
        if same_file(path, same):
            parser.error(
                f"{one} and {other} must be different files, got {same} for both: "
                "the second would replace the first."
            )
