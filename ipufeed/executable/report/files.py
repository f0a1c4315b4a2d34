"""Reads one report, or all reports in a folder, which may be damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from ipufeed.executable.program.file_format import JsonObject
from ipufeed.executable.report.write import FRAMEWORK, GRAPH, PROFILE

PREFIX = "tf_report__"
MOST_BYTES = 64 << 20  # larger files are not reports


class NoReportError(ValueError):
    """A folder has no readable report; the message has the remedy."""


@dataclass(frozen=True)
class Report:
    """The content of a report's folder.

    Attributes:
        folder: The folder.
        profile: profile.json.
        framework: framework.json, or {}.
        graph: graph.svg, or "".
    """

    folder: Path
    profile: JsonObject = field(repr=False)
    framework: JsonObject = field(repr=False)
    graph: str = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the program."""
        return str(self.profile["program"]["name"])


def read_reports(folder: Path) -> list[Report]:
    """Returns the report in a folder, or those in its subfolders, by folder name.

    Raises:
        NoReportError: No report exists, or one cannot be read.
    """
    if not folder.is_dir():
        raise NoReportError(f"There is no folder {folder}.")
    if (folder / PROFILE).is_file():
        return [_read_report(folder)]
    found = sorted(folder.glob(f"{PREFIX}*/{PROFILE}"))
    if not found:
        raise NoReportError(
            f"{folder} has no report: no {PROFILE} in it, nor in a folder {PREFIX}* of "
            "it. A program that is compiled, and does not come from the cache, gets one "
            'with POPLAR_ENGINE_OPTIONS=\'{"autoReport.all": "true"}\'.'
        )
    return [_read_report(path.parent) for path in found]


def _read_report(folder: Path) -> Report:
    profile = _read_json(folder / PROFILE)
    for name in ("program", "memory", "cost"):
        if not isinstance(profile.get(name), dict):
            raise NoReportError(f"{folder / PROFILE} has no object {name!r}.")
    framework = folder / FRAMEWORK
    graph = folder / GRAPH
    return Report(
        folder,
        profile,
        _read_json(framework) if framework.is_file() else {},
        read_text(graph) if graph.is_file() else "",
    )


def _read_json(path: Path) -> JsonObject:
    try:
        value = json.loads(read_text(path))
    except ValueError as error:
        if isinstance(error, NoReportError):
            raise
        raise NoReportError(f"{path} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise NoReportError(f"{path} must be a JSON object.")
    return value


def read_text(path: Path) -> str:
    """Returns a file's text; raises NoReportError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NoReportError(f"{path} is larger than {MOST_BYTES >> 20} MiB.")
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise NoReportError(f"{path} cannot be read: {error.strerror}.") from None
