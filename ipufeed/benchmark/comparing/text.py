"""A comparison as text."""

from __future__ import annotations

import math

from ipufeed.benchmark.comparing.compare import WANTED, Comparison
from ipufeed.benchmark.comparing.verdicts import CANNOT_TELL, HELD, SLOWER
from ipufeed.benchmark.result.json_text import JsonObject
from ipufeed.render.terminal import wrap
from ipufeed.render.units import duration_up, number, percent


def verdict_lines(comparison: Comparison) -> list[str]:
    """Returns the verdict, the gate's, how to detect more, and the notes."""
    lines = wrap(f"{comparison.verdict}: {_what_was_found(comparison)}")
    if comparison.gate is not None:
        lines += wrap(_gate_sentence(comparison))
    if _undecided(comparison):
        lines += wrap(_remedy(comparison))
    for note in comparison.notes:
        lines += wrap(f"note: {note.message}")
    return lines


def _undecided(comparison: Comparison) -> bool:
    """Whether longer or more runs may give a verdict."""
    if any(note.forbids for note in comparison.notes):
        return False
    if comparison.gate is not None:
        return bool(comparison.gate["verdict"] == CANNOT_TELL)
    return comparison.verdict == CANNOT_TELL


def _what_was_found(comparison: Comparison) -> str:
    """Returns the rates, their ratio and its interval as text."""
    base, new = comparison.base, comparison.new
    found = (
        f"{number(new['rate'])} {comparison.unit}/s{_of_runs(new)} after "
        f"{number(base['rate'])}{_of_runs(base) or ' in ' + base['names'][0]}: "
        f"{comparison.ratio:.3f} times the rate"
    )
    if comparison.verdict_interval is None:
        return found + "."
    low, high = comparison.verdict_interval
    sure = "with 99 % confidence" if comparison.verdict == CANNOT_TELL else "surely"
    return f"{found}, {sure} from {low:.3f} to {high:.3f} times."


def _of_runs(side: JsonObject) -> str:
    count = len(side["names"])
    return "" if count == 1 else f" (mean of {count} runs)"


def _gate_sentence(comparison: Comparison) -> str:
    gate = comparison.gate or {}
    allowed = percent(gate["allowed_loss"])
    return {
        HELD: f"gate held: surely no more than {allowed} of the rate is lost.",
        SLOWER: f"gate failed: surely more than {allowed} of the rate is lost.",
        CANNOT_TELL: f"gate undecided: whether more than {allowed} of the rate is lost "
        "cannot be determined.",
    }[gate["verdict"]]


def _remedy(comparison: Comparison) -> str:
    """Returns how to detect smaller differences than the smallest detectable one."""
    smallest = comparison.smallest_detectable
    if smallest is None:
        return ""
    wanted = comparison.gate["allowed_loss"] if comparison.gate else 0.0
    wanted = wanted or WANTED
    only = "A difference" if smallest < 1 else "Only a difference"
    seen = f"{only} of {percent(smallest)} would have been seen"
    seen += " in 95 of 100 such comparisons"
    if smallest <= -math.log1p(-wanted):
        return f"{seen}, so that a larger difference can be excluded."
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
