"""Writes the requested reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ipufeed.render.files import write_whole
from ipufeed.render.text import JsonObject

if TYPE_CHECKING:
    from ipufeed.benchmark.report.protocols import Recording, Result


def write_reports(
    result: JsonObject, asked: dict[str, str], recording: Recording | None = None
) -> list[str]:
    """Writes each report atomically, and continues if one cannot be written.

    Args:
        result: As the JSON holds it.
        asked: File of each kind of report (a key of options.REPORTS).
        recording: Events of the threads, for the trace; None for a stored result.

    Returns:
        A message for each report that could not be written.
    """
    failures = []
    for kind, path in asked.items():
        try:
            write_whole(path, content(kind, result, path, recording))
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror or error}.")
    return failures


def content(
    kind: str, result: JsonObject, path: str, recording: Recording | None
) -> bytes:
    """Returns the bytes of a report; imports what makes it only now."""
    if kind == "parquet":
        from ipufeed.benchmark.report.parquet import parquet_bytes

        return parquet_bytes(result)
    if kind == "trace":
        from ipufeed.benchmark.report.trace import trace_bytes

        return trace_bytes(result, recording, zipped=path.endswith(".gz"))
    from ipufeed.benchmark.report.page import page

    return page(result).encode("utf-8", "replace")


def as_stored(result: Result) -> JsonObject:
    """Returns a result as a file holds it: lists for tuples, null for infinity."""
    stored: JsonObject = json.loads(result.to_json())
    return stored
