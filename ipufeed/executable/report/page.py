"""Renders reports as one self-contained HTML page, without network access and scripts.

Reports are untrusted data: text is escaped, numbers are parsed, the graph is an image (in
which scripts do not run), and a content policy forbids the browser everything else.
"""

from __future__ import annotations

import base64

from ipufeed.executable.program.file_format import JsonObject
from ipufeed.executable.report.files import Report
from ipufeed.executable.report.memory import PURPOSES
from ipufeed.render.html import document, table, tiles
from ipufeed.render.text import (
    count,
    escaped,
    finite,
    part,
    rows_of,
    seconds,
    short,
    size,
)

MOST_ROWS = 20


def page(reports: list[Report]) -> str:
    """Returns the page, with the reports in the given order."""
    names = ", ".join(dict.fromkeys(each.name for each in reports))
    parts = ["<h1>Compiled programs</h1>"]
    if len(reports) > 1:
        parts.append(_overview(reports))
    for place, report in enumerate(reports):
        parts += _section(report, place)
    return document(f"{short(names, 80)} - compiled programs", "\n".join(parts))


def _overview(reports: list[Report]) -> str:
    rows = []
    for place, report in enumerate(reports):
        run = part(part(report.profile, "cost"), "run")
        program = part(report.profile, "program")
        rows.append(
            [
                f'<a href="#program-{place}">{escaped(report.name)}</a>',
                escaped(str(program.get("created", ""))),
                seconds(program.get("compile_seconds")),
                size(part(report.profile, "memory").get("total_bytes")),
                count(run.get("flops")),
                count(run.get("estimated_cycles")),
            ]
        )
    heads = [
        "program",
        "created",
        "compiled in",
        "memory",
        "flops",
        "cycles (estimate)",
    ]
    return f"<nav>{table(heads, rows, left=2)}</nav>"


def _section(report: Report, number: int) -> list[str]:
    program = part(report.profile, "program")
    memory, cost = part(report.profile, "memory"), part(report.profile, "cost")
    run = part(cost, "run")
    return [
        f'<article id="program-{number}"><h2>{escaped(report.name)}</h2>',
        f'<p class="quiet">hash {escaped(str(program.get("hash", "")))}, '
        f"{escaped(str(program.get('created', '')))}, process "
        f"{escaped(str(program.get('process', '')))}</p>",
        tiles(
            [
                ("compiled in", seconds(program.get("compile_seconds")), ""),
                ("memory", size(memory.get("total_bytes")), "with code"),
                ("flops", count(run.get("flops")), "per run *"),
                ("bytes moved", size(run.get("bytes")), "per run *"),
                ("cycles", count(run.get("estimated_cycles")), "estimate, per run *"),
                ("time on an IPU", seconds(run.get("estimated_seconds")), "estimate *"),
            ]
        ),
        f'<p class="quiet">* {escaped(str(cost.get("counted", "")))}</p>',
        "<h3>Memory by purpose</h3>",
        _purposes(part(memory, "by_purpose")),
        f"<h3>Largest buffers</h3>{_buffers(memory)}",
        f"<h3>Loops</h3>{_loops(cost)}" if rows_of(cost, "loops") else "",
        "<h3>Steps by estimated cycles</h3>",
        f'<p class="quiet">{escaped(str(cost.get("estimated", "")))} '
        f"{_model(part(report.profile, 'ipu_model'))}</p>",
        _steps(cost),
        _graph(report),
        f"<h3>Framework</h3>{_framework(report.framework)}",
        "</article>",
    ]


def _purposes(sizes: JsonObject) -> str:
    known = [(name, finite(sizes.get(name))) for name in PURPOSES]
    total = sum(each for _, each in known) or 1.0
    bar, rows, x = [], [], 0.0
    for index, (name, nbytes) in enumerate(known):
        width = 100 * nbytes / total
        bar.append(
            f'<rect class="p{index}" x="{x:.3f}" y="0" width="{width:.3f}" height="10">'
            f"<title>{name}: {size(nbytes)}</title></rect>"
        )
        x += width
        key = f'<span class="key p{index}"></span>{name}'
        rows.append([key, size(nbytes), f"{width:.1f} %"])
    picture = (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="Memory by purpose">{"".join(bar)}</svg>'
    )
    return picture + table(["purpose", "size", "fraction"], rows)


def _buffers(memory: JsonObject) -> str:
    found = rows_of(memory, "buffers")
    rows = [
        [
            _named(each.get("name"), each.get("source")),
            escaped(str(each.get("purpose", ""))),
            f"<code>{escaped(short(str(each.get('shape', '')), 60))}</code>",
            size(each.get("nbytes")),
            count(each.get("values")),
        ]
        for each in found[:MOST_ROWS]
    ]
    heads = ["largest value in it", "purpose", "shape", "size", "values in sequence"]
    more = finite(memory.get("number_of_buffers")) - len(rows)
    return table(heads, rows, left=3) + _rest(more, "smaller buffers")


def _loops(cost: JsonObject) -> str:
    """Returns a table of the work of one iteration of each loop."""
    rows = []
    for each in rows_of(cost, "loops"):
        iteration, trips = part(each, "iteration"), each.get("trips")
        rows.append(
            [
                escaped(short(str(each.get("name", "")), 80)),
                "known when it runs" if trips is None else count(trips),
                count(iteration.get("flops")),
                size(iteration.get("bytes")),
                size(iteration.get("host_bytes")),
                count(iteration.get("estimated_cycles")),
            ]
        )
    heads = ["loop", "iterations", "flops", "bytes", "host", "cycles (estimate)"]
    return '<p class="quiet">Figures of one iteration.</p>' + table(heads, rows, left=1)


def _steps(cost: JsonObject) -> str:
    found = rows_of(cost, "steps")
    cycles = [
        finite(s.get("estimated_cycles")) * finite(s.get("executions")) for s in found
    ]
    whole = finite(part(cost, "run").get("estimated_cycles")) or 1.0
    rows = []
    for each, taken in list(zip(found, cycles, strict=True))[:MOST_ROWS]:
        fraction = min(100.0, 100 * taken / whole)
        rows.append(
            [
                _named(each.get("op_name") or each.get("name"), each.get("source")),
                escaped(str(each.get("opcode", ""))),
                f"<code>{escaped(short(str(each.get('shape', '')), 50))}</code>",
                count(each.get("executions")),
                count(each.get("flops")),
                size(finite(each.get("bytes")) + finite(each.get("host_bytes"))),
                count(each.get("estimated_cycles")),
                f'<meter min="0" max="100" value="{fraction:.1f}"></meter> '
                f"{fraction:.0f} %",
            ]
        )
    heads = ["step", "kind", "result", "times", "flops", "bytes", "cycles (estimate)"]
    more = finite(cost.get("number_of_steps")) - len(rows)
    return table([*heads, "fraction"], rows, left=3) + _rest(more, "shorter steps")


def _graph(report: Report) -> str:
    """Returns the graph as an image, in which scripts do not run."""
    if not report.graph:
        return ""
    data = base64.b64encode(report.graph.encode()).decode()
    return (
        '<h3>Graph</h3><div class="graph" tabindex="0"><img alt="The steps of the '
        f'compiled program" src="data:image/svg+xml;base64,{data}"></div>'
    )


def _framework(about: JsonObject) -> str:
    rows = [
        [escaped(str(group)), escaped(str(name)), escaped(str(value))]
        for group, values in about.items()
        if isinstance(values, dict)
        for name, value in values.items()
    ]
    return table(["", "what", "value"], rows, left=3)


def _model(values: JsonObject) -> str:
    return (
        f"Modelled: {finite(values.get('tiles')):.0f} tiles at "
        f"{finite(values.get('clock_hz')) / 1e9:.2f} GHz, "
        f"{size(values.get('tile_bytes'))} each."
    )


def _named(name: object, source: object) -> str:
    """Returns a name with its source line."""
    shown = escaped(short(str(name or ""), 60))
    if not source:
        return shown
    return f'{shown}<br><small class="quiet">{escaped(short(str(source), 70))}</small>'


def _rest(more: float, what: str) -> str:
    """Returns a line with the number of rows that a table omits."""
    return f'<p class="quiet">and {more:.0f} {what}</p>' if more > 0 else ""
