"""Writes the reports that were asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ipufeed.render.files import write_whole

if TYPE_CHECKING:
    from ipufeed.benchmark.report.protocols import Recording


def write_reports(
    result: dict[str, Any], asked: dict[str, str], recording: Recording | None = None
) -> list[str]:
    """Writes each report, whole or not at all, and goes on where one cannot be written.

    Args:
        result: As the JSON holds it.
        asked: Kind (a key of options.REPORTS) to file.
        recording: What the threads did, for the trace; None for a stored result.

    Returns:
        A sentence for each that could not be written.
    """
    failures = []
    for kind, path in asked.items():
        try:
            write_whole(path, content(kind, result, path, recording))
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror or error}.")
    return failures


def content(
    kind: str, result: dict[str, Any], path: str, recording: Recording | None
) -> bytes:
    """The bytes of a report. What makes it is imported only now."""
    if kind == "parquet":
        from ipufeed.benchmark.report.parquet import parquet_bytes

        return parquet_bytes(result)
    if kind == "trace":
        from ipufeed.benchmark.report.trace import trace_bytes

        return trace_bytes(result, recording, zipped=path.endswith(".gz"))
    from ipufeed.benchmark.report.page import page

    return page(result).encode("utf-8", "replace")


def as_stored(result: Any) -> dict[str, Any]:
    """A Result as it is in a file: with lists for tuples, and null for infinity."""
    stored: dict[str, Any] = json.loads(result.to_json())
    return stored
