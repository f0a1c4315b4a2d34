"""The stages on the page: their figures, the advice about them, and predictions."""

from __future__ import annotations

from ipufeed.render import units
from ipufeed.render.html import table
from ipufeed.render.text import (
    MOST_ROWS,
    JsonObject,
    finite,
    optional,
    rows_of,
    seconds,
    text_of,
)


def stages(result: JsonObject) -> str:
    """Returns tables of the stages, the advice and the predictions; "" without stages."""
    found = rows_of(result, "stages")
    rows = [
        [
            text_of(_stage_name(each), 120),
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
    return table(heads, rows, left=2) + _advice(result) + _what_if(result)


def _stage_name(stage: JsonObject) -> str:
    """Returns the name of a stage, with those of the steps inside it."""
    name, inside = str(stage.get("name", "")), stage.get("inside")
    if not inside or not isinstance(inside, list):
        return name
    return f"{name} (with {', '.join(map(str, inside))} inside)"


def _advice(result: JsonObject) -> str:
    """Returns the list of advice, with its outcome if it was tried."""
    items = "".join(
        f"<li>{text_of(each.get('text', ''))}{_outcome(each)}</li>"
        for each in rows_of(result, "advice")[:MOST_ROWS]
    )
    return f"<h3>What to change</h3><ul>{items}</ul>" if items else ""


def _outcome(each: JsonObject) -> str:
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


def _what_if(result: JsonObject) -> str:
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
