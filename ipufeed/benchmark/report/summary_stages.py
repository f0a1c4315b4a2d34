"""The summary's table of stages in 79 columns, advice, and predictions."""

from __future__ import annotations

from ipufeed.benchmark.report.protocols import Result, Section
from ipufeed.render.terminal import wrap
from ipufeed.render.terminal_text import printable
from ipufeed.render.units import counted

NAME_WIDTH = 24
MOST_ROWS = 8
LEAST_SHARE = 0.005
# The steps inside a stage are listed from this fraction on.
INSIDE_SHARE = 0.05


def stage_lines(result: Result) -> list[str]:
    """Returns the lines for stderr; [] without stages."""
    if not result.stages:
        return []
    shown = [s for s in result.stages if s["share"] >= LEAST_SHARE][:MOST_ROWS]
    hidden = result.stages[:MOST_ROWS][len(shown) :][:2] if len(shown) < 3 else []
    head = f"  {'stage':<{NAME_WIDTH}} {'share':>6} {'ms each':>9} {'CPU ms':>8}"
    lines = [f"{head} {'parallel':>9} {'ceiling/s':>10}"]
    for stage in (*shown, *hidden):
        lines.append(_row(stage))
        if stage.get("inside") and stage["share"] >= INSIDE_SHARE:
            inside = ", ".join(
                f"`{_short(printable(each))}`" for each in stage["inside"]
            )
            lines += wrap(f"with {inside} inside it", indent="    ")
    left = len(result.stages) - len(shown) - len(hidden)
    if left > 0:
        more = counted(left, "more stage")
        lines.append(f"  {more} (overlapped, or below {LEAST_SHARE:.1%})")
    for advice in result.advice or []:
        lines += wrap("advice: " + advice["text"] + _outcome(advice))
    for each in result.what_if or []:
        lines += wrap(_what_if_text(each))
    return lines


def _row(stage: Section) -> str:
    name = _short(printable(stage["name"]))
    workers = "" if stage["parallelism"] is None else str(stage["parallelism"])
    if stage["parallelism"] is not None and stage["autotuned"]:
        workers += " (auto)"
    each = _milliseconds(stage["seconds_per_element"])
    cpu = _milliseconds(stage["cpu_seconds_per_element"])
    ceiling = stage["ceiling_elements_per_second"]
    return (
        f"  {name:<{NAME_WIDTH}} {stage['share']:>6.0%} {each:>9} {cpu:>8} "
        f"{workers:>9} {_rate(ceiling):>10}"
    ).rstrip()


def _short(name: str) -> str:
    """Returns at most NAME_WIDTH columns, cut at the end."""
    if len(name) <= NAME_WIDTH:
        return name
    return name[: NAME_WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _milliseconds(seconds: float | None) -> str:
    """Returns three significant digits; "" for an unknown time."""
    if seconds is None:
        return ""
    value = seconds * 1e3
    if value >= 100:
        return f"{value:,.0f}"
    if value < 0.0005:
        return "0"
    return f"{value:.3g}" if value >= 0.01 else f"{value:.3f}"


def _rate(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1e7:
        return "> 10 M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _outcome(advice: Section) -> str:
    if advice["measured_gain"] is None:
        return f" ({advice['note']})" if advice["note"] else ""
    gain = f"{advice['measured_gain']:.2f}x"
    if advice["predicted_gain"] is None:
        return f" (tried: {gain})"
    predicted = f"{advice['predicted_gain']:.2f}x"
    if advice["held"]:
        return f" (tried: {gain}, predicted {predicted})"
    return f" (tried, and it did NOT hold: {gain}, predicted {predicted})"


def _what_if_text(answer: Section) -> str:
    predicted = answer["predicted_elements_per_second"]
    still = " still" if answer["next"] == answer["stage"] else ""
    return (
        f"what if {answer['question']}: {_rate(answer['elements_per_second'])} -> about "
        f"{_rate(predicted) or 'no bound'} elements/s; then `{answer['next']}` would"
        f"{still} be what holds it back"
    )
