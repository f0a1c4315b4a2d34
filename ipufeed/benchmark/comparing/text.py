"""A comparison in sentences for people."""

from __future__ import annotations

import math
from typing import Any

from ipufeed.benchmark.comparing.compare import CANNOT_TELL, WANTED, Comparison
from ipufeed.render.terminal import wrap
from ipufeed.render.units import duration_up, number, percent


def verdict_lines(comparison: Comparison) -> list[str]:
    """The verdict, the gate's, what could have been seen, and what to know."""
    lines = wrap(f"{comparison.verdict}: {what_was_found(comparison)}")
    if comparison.gate is not None:
        lines += wrap(gate_sentence(comparison))
    if undecided(comparison):
        lines += wrap(way_out(comparison))
    for note in comparison.notes:
        lines += wrap(f"note: {note.message}")
    return lines


def undecided(comparison: Comparison) -> bool:
    """Whether there is a question left that more measuring may answer."""
    if any(note.forbids for note in comparison.notes):
        return False
    if comparison.gate is not None:
        return bool(comparison.gate["verdict"] == CANNOT_TELL)
    return comparison.verdict == CANNOT_TELL


def what_was_found(comparison: Comparison) -> str:
    """The rates, their ratio and its interval."""
    base, new = comparison.base, comparison.new
    found = (
        f"{number(new['rate'])} {comparison.unit}/s{of_runs(new)} after "
        f"{number(base['rate'])}{of_runs(base) or ' in ' + base['names'][0]}: "
        f"{comparison.ratio:.3f} times the rate"
    )
    if comparison.verdict_interval is None:
        return found + "."
    low, high = comparison.verdict_interval
    sure = "with 99 % confidence" if comparison.verdict == CANNOT_TELL else "surely"
    return f"{found}, {sure} from {low:.3f} to {high:.3f} times."


def of_runs(side: dict[str, Any]) -> str:
    """` (mean of 3 runs)`, where there are several."""
    count = len(side["names"])
    return "" if count == 1 else f" (mean of {count} runs)"


def gate_sentence(comparison: Comparison) -> str:
    """The gate's verdict in words."""
    gate = comparison.gate or {}
    allowed = percent(gate["allowed_loss"])
    return {
        "held": f"gate held: surely no more than {allowed} of the rate is lost.",
        "slower": f"gate failed: surely more than {allowed} of the rate is lost.",
        "cannot tell": f"gate open: whether more than {allowed} of the rate is lost "
        "cannot be determined.",
    }[gate["verdict"]]


def way_out(comparison: Comparison) -> str:
    """What could have been seen, and what it takes to see more."""
    smallest = comparison.smallest_detectable
    if smallest is None:
        return ""
    wanted = comparison.gate["allowed_loss"] if comparison.gate else 0.0
    wanted = wanted or WANTED
    only = "A difference" if smallest < 1 else "Only a difference"
    seen = f"{only} of {percent(smallest)} would have been seen"
    seen += " in 95 of 100 such comparisons"
    if smallest <= -math.log1p(-wanted):
        return f"{seen}, so that there is none of much more than that."
    ways = []
    if comparison.seconds_needed is not None:
        ways.append(
            f"run each for {duration_up(comparison.seconds_needed)} (--seconds)"
        )
    if comparison.runs_needed is not None:
        ways.append(
            f"compare {comparison.runs_needed} runs of each, measured alternately"
        )
    if not ways:
        return f"{seen}. To see one of {percent(wanted)}, measure on a quieter machine."
    return f"{seen}. To see one of {percent(wanted)}, {' or '.join(ways)}."
