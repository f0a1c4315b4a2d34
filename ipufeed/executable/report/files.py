"""Reads reports: of one folder, or of all reports in a folder. They may be damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipufeed.executable.report.write import FRAMEWORK, GRAPH, PROFILE

PREFIX = "tf_report__"
MOST_BYTES = 64 << 20  # of a file: what is larger is none of ours


class NoReportError(ValueError):
    """There is no report; the message has where, and how to get one."""


@dataclass(frozen=True)
class Report:
    """What is in the folder of a report.

    Attributes:
        folder: The folder.
        profile: Of profile.json.
        framework: Of framework.json, or {}.
        graph: The SVG, or "".
    """

    folder: Path
    profile: dict[str, Any] = field(repr=False)
    framework: dict[str, Any] = field(repr=False)
    graph: str = field(repr=False)

    @property
    def name(self) -> str:
        """Of the program."""
        return str(self.profile["program"]["name"])


def read_reports(folder: Path) -> list[Report]:
    """The report in a folder, or all in its folders, by their names.

    Raises:
        NoReportError: There is none, or one cannot be read.
    """
    if not folder.is_dir():
        raise NoReportError(f"There is no folder {folder}.")
    if (folder / PROFILE).is_file():
        return [read_report(folder)]
    found = sorted(folder.glob(f"{PREFIX}*/{PROFILE}"))
    if not found:
        raise NoReportError(
            f"{folder} has no report: no {PROFILE} in it, nor in a folder {PREFIX}* of "
            "it. A program that is compiled, and does not come from the cache, gets one "
            'with POPLAR_ENGINE_OPTIONS=\'{"autoReport.all": "true"}\'.'
        )
    return [read_report(path.parent) for path in found]


def read_report(folder: Path) -> Report:
    """The report of a folder.

    Raises:
        NoReportError: It cannot be read.
    """
    profile = read_json(folder / PROFILE)
    for name in ("program", "memory", "cost"):
        if not isinstance(profile.get(name), dict):
            raise NoReportError(f"{folder / PROFILE} has no object {name!r}.")
    framework = folder / FRAMEWORK
    graph = folder / GRAPH
    return Report(
        folder,
        profile,
        read_json(framework) if framework.is_file() else {},
        read_text(graph) if graph.is_file() else "",
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; raises NoReportError."""
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
    """A file's text; raises NoReportError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NoReportError(f"{path} is larger than {MOST_BYTES >> 20} MiB.")
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise NoReportError(f"{path} cannot be read: {error.strerror}.") from None
