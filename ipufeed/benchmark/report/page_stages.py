"""The stages on the page: what they take, what to change, and what that would give."""

from __future__ import annotations

from typing import Any

from ipufeed.render import units
from ipufeed.render.html import table
from ipufeed.render.text import (
    MOST_ROWS,
    finite,
    optional,
    rows_of,
    seconds,
    text_of,
)


def stages(result: dict[str, Any]) -> str:
    """The stages' figures, and below them what can be done; or nothing."""
    found = rows_of(result, "stages")
    rows = [
        [
            text_of(stage_name(each), 120),
            text_of(each.get("kind", ""), 40),
            optional(each.get("share"), lambda share: f"{share:.0%}"),
            optional(each.get("seconds_per_element"), seconds),
            optional(each.get("cpu_seconds_per_element"), seconds),
            optional(each.get("parallelism"), lambda n: f"{n:g}"),
            optional(each.get("buffered_bytes"), units.size),
            optional(each.get("ceiling_elements_per_second"), units.number),
        ]
        for each in found[:MOST_ROWS]
    ]
    if not rows:
        return ""
    heads = [
        "stage",
        "kind",
        "share",
        "per element",
        "CPU",
        "parallel",
        "buffers",
        "at most/s",
    ]
    return table(heads, rows, left=2) + advice(result) + what_if(result)


def stage_name(stage: dict[str, Any]) -> str:
    """Its name, with those of what runs inside it."""
    name, inside = str(stage.get("name", "")), stage.get("inside")
    if not inside or not isinstance(inside, list):
        return name
    return f"{name} (with {', '.join(map(str, inside))} inside)"


def advice(result: dict[str, Any]) -> str:
    """Each edit, what it should give, and what it gave if it was tried."""
    items = "".join(
        f"<li>{text_of(each.get('text', ''))}{outcome(each)}</li>"
        for each in rows_of(result, "advice")[:MOST_ROWS]
    )
    return f"<h3>What to change</h3><ul>{items}</ul>" if items else ""


def outcome(each: dict[str, Any]) -> str:
    """What --verify found of a piece of advice."""
    if each.get("measured_gain") is None:
        note = each.get("note")
        return f" <em>{text_of(note, 400)}</em>" if note else ""
    gain = f"{finite(each['measured_gain']):.2f}x"
    if each.get("predicted_gain") is None:
        return f" <em>Tried: {gain}.</em>"
    predicted = f"{finite(each['predicted_gain']):.2f}x"
    if each.get("held"):
        return f" <em>Tried: {gain}, predicted {predicted}.</em>"
    return (
        f" <em>Tried, and it did <strong>not</strong> hold: {gain}, predicted "
        f"{predicted}.</em>"
    )


def what_if(result: dict[str, Any]) -> str:
    """The answers to --what-if, in elements per second."""
    rows = [
        [
            text_of(each.get("question", ""), 80),
            text_of(each.get("next", ""), 80),
            optional(each.get("elements_per_second"), units.number),
            optional(each.get("predicted_elements_per_second"), units.number),
        ]
        for each in rows_of(result, "what_if")[:MOST_ROWS]
    ]
    heads = ["what if", "then held back by", "now/s", "about/s"]
    return f"<h3>What if</h3>{table(heads, rows, left=2)}" if rows else ""
