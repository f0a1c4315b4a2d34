"""A result in a notebook, and in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ipufeed.benchmark.report.files import as_stored
from ipufeed.benchmark.report.pictures import rate_picture
from ipufeed.render.text import escaped, rows_of, short

if TYPE_CHECKING:
    from ipufeed.benchmark.report.protocols import Result

WIDTH = 640
MOST_WARNINGS = 5


def notebook_html(result: Result) -> str:
    """A table and the rate over time.

    Colours are those of the notebook around it, whatever its theme: nothing here has a
    colour of its own but the lines of the picture.
    """
    from ipufeed.benchmark.report import summary

    stored = as_stored(result)
    pairs = [
        ("rate", summary.rate(result)),
        ("95 % interval", summary.interval(result.steady)),
        ("bandwidth", summary.bandwidth(result)),
        ("start-up", summary.startup(result)),
        ("between elements", summary.latency(result.latency)),
        ("measured", summary.amount(result)),
    ]
    rows = "".join(row(name, text) for name, text in pairs if text is not None)
    rows += "".join(notes(stored))
    name = escaped(short(str(result.dataset.get("name")), 120))
    return (
        f'<div style="overflow-x:auto"><strong><bdi>{name}</bdi></strong>'
        f'<table style="color:inherit"><tbody>{rows}</tbody></table>'
        f"{rate_picture(stored, WIDTH)}</div>"
    )


def notes(stored: Mapping[str, Any]) -> list[str]:
    """The error and the first warnings."""
    found = []
    error = stored.get("error")
    if error:
        found.append(row("error", f"{error['type']}: {short(error['message'], 300)}"))
    found += [
        row("warning", short(str(each.get("message", "")), 300))
        for each in rows_of(stored, "warnings")[:MOST_WARNINGS]
    ]
    return found


def row(name: str, text: str) -> str:
    """A row of the table; the notebook's own style would put text to the right."""
    look = ' style="text-align:left;color:inherit"'
    return f"<tr><td{look}>{escaped(name)}</td><td{look}>{escaped(text)}</td></tr>"
