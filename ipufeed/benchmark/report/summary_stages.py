"""The summary's part on stages: a table of 79 columns, advice, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.benchmark.report.protocols import Result
from ipufeed.render.terminal import printable, wrap

NAME_WIDTH = 24
MOST_ROWS = 8
LEAST_SHARE = 0.005
# From here on a stage is worth a word about what runs inside it.
INSIDE_SHARE = 0.05


def stage_lines(result: Result) -> list[str]:
    """Lines for stderr; none where the stages are not known."""
    if not result.stages:
        return []
    shown = [s for s in result.stages if s["share"] >= LEAST_SHARE][:MOST_ROWS]
    hidden = result.stages[:MOST_ROWS][len(shown) :][:2] if len(shown) < 3 else []
    head = f"  {'stage':<{NAME_WIDTH}} {'share':>6} {'ms each':>9} {'CPU ms':>8}"
    lines = [f"{head} {'parallel':>9} {'ceiling/s':>10}"]
    for stage in (*shown, *hidden):
        lines.append(row(stage))
        if stage.get("inside") and stage["share"] >= INSIDE_SHARE:
            inside = ", ".join(
                f"`{short(printable(each))}`" for each in stage["inside"]
            )
            lines += wrap(f"    with {inside} inside it")
    left = len(result.stages) - len(shown) - len(hidden)
    if left > 0:
        verbs = ("hides", "takes") if left == 1 else ("hide", "take")
        lines.append(
            f"  {left} more, which {verbs[0]} behind these or {verbs[1]} next to nothing"
        )
    for advice in result.advice or []:
        lines += wrap("advice: " + advice["text"] + outcome(advice))
    for each in result.what_if or []:
        lines += wrap(what_if_text(each))
    return lines


def row(stage: Mapping[str, Any]) -> str:
    """One stage."""
    name = short(printable(stage["name"]))
    workers = "" if stage["parallelism"] is None else str(stage["parallelism"])
    if stage["parallelism"] is not None and stage["autotuned"]:
        workers += " (auto)"
    each = milliseconds(stage["seconds_per_element"])
    cpu = milliseconds(stage["cpu_seconds_per_element"])
    ceiling = stage["ceiling_elements_per_second"]
    return (
        f"  {name:<{NAME_WIDTH}} {stage['share']:>6.0%} {each:>9} {cpu:>8} "
        f"{workers:>9} {rate(ceiling):>10}"
    ).rstrip()


def short(name: str) -> str:
    """At most NAME_WIDTH columns, the end left out."""
    if len(name) <= NAME_WIDTH:
        return name
    return name[: NAME_WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def milliseconds(seconds: float | None) -> str:
    """Three significant digits, none for next to nothing, and none where it is unknown."""
    if seconds is None:
        return ""
    value = seconds * 1e3
    if value >= 100:
        return f"{value:,.0f}"
    if value < 0.0005:
        return "0"
    return f"{value:.3g}" if value >= 0.01 else f"{value:.3f}"


def rate(value: float | None) -> str:
    """Per second."""
    if value is None:
        return ""
    if value >= 1e7:
        return "> 10 M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def outcome(advice: Mapping[str, Any]) -> str:
    """What --verify found."""
    if advice["measured_gain"] is None:
        return f" ({advice['note']})" if advice["note"] else ""
    gain = f"{advice['measured_gain']:.2f}x"
    if advice["predicted_gain"] is None:
        return f" (tried: {gain})"
    predicted = f"{advice['predicted_gain']:.2f}x"
    if advice["held"]:
        return f" (tried: {gain}, predicted {predicted})"
    return f" (tried, and it did NOT hold: {gain}, predicted {predicted})"


def what_if_text(answer: Mapping[str, Any]) -> str:
    """A prediction in words."""
    predicted = answer["predicted_elements_per_second"]
    still = " still" if answer["next"] == answer["stage"] else ""
    return (
        f"what if {answer['question']}: {rate(answer['elements_per_second'])} -> about "
        f"{rate(predicted) or 'no bound'} elements/s; then `{answer['next']}` would"
        f"{still} be what holds it back"
    )
