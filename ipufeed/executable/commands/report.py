"""Makes one self-contained page of autoReport's reports.

Needs no TensorFlow.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ipufeed.executable.report import page as report_page
from ipufeed.executable.report.files import NoReportError, read_reports


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds DIR and --html."""
    parser.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        help="a tf_report__... folder, or a folder of them",
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, required=True, help="the page to write"
    )


def run(options: argparse.Namespace) -> int:
    """Writes the page; returns 2 without a report, or if the page cannot be written."""
    try:
        reports = read_reports(options.folder)
        options.html.write_text(report_page.page(reports), "utf-8")
    except NoReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"report: {options.html} cannot be written: {error.strerror}.",
            file=sys.stderr,
        )
        return 2
    programs = f"{len(reports)} program{'s' if len(reports) > 1 else ''}"
    print(f"{options.html}: {programs}", file=sys.stderr)
    return 0
