"""A result in a notebook: a table of its figures and the rate over time."""

from __future__ import annotations

from ipufeed.benchmark.report import summary
from ipufeed.benchmark.report.files import as_stored
from ipufeed.benchmark.report.pictures import rate_picture
from ipufeed.benchmark.report.protocols import Result
from ipufeed.render.text import JsonObject, escaped, rows_of, short

WIDTH = 640
MOST_WARNINGS = 5


def notebook_html(result: Result) -> str:
    """Returns the HTML of a result.

    Text has the colours of the notebook's theme; only the lines of the picture have their
    own.
    """
    stored = as_stored(result)
    pairs = [
        ("rate", summary.rate(result)),
        ("95 % interval", summary.interval(result.steady)),
        ("bandwidth", summary.bandwidth(result)),
        ("start-up", summary.startup(result)),
        ("between elements", summary.latency(result.latency)),
        ("measured", summary.amount(result)),
    ]
    rows = "".join(_row(name, text) for name, text in pairs if text is not None)
    rows += "".join(_notices(stored))
    name = escaped(short(str(result.dataset.get("name")), 120))
    return (
        f'<div style="overflow-x:auto"><strong><bdi>{name}</bdi></strong>'
        f'<table style="color:inherit"><tbody>{rows}</tbody></table>'
        f"{rate_picture(stored, WIDTH)}</div>"
    )


def _notices(stored: JsonObject) -> list[str]:
    """Returns rows with the error and the first warnings."""
    found = []
    error = stored.get("error")
    if error:
        found.append(_row("error", f"{error['type']}: {short(error['message'], 300)}"))
    found += [
        _row("warning", short(str(each.get("message", "")), 300))
        for each in rows_of(stored, "warnings")[:MOST_WARNINGS]
    ]
    return found


def _row(name: str, text: str) -> str:
    # The notebook's own style would align text right.
    style = ' style="text-align:left;color:inherit"'
    return f"<tr><td{style}>{escaped(name)}</td><td{style}>{escaped(text)}</td></tr>"
