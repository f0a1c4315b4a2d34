"""Finds the advice that is worth giving: the rules' proposals, the largest gain first."""

from __future__ import annotations

import os

from ipufeed.benchmark.advice.advice import MOST_ADVICE, Advice, Case


def find_advice(case: Case) -> list[Advice]:
    """All that is worth saying, the largest gain first."""
    from ipufeed.benchmark.advice.rules import RULES

    found: list[Advice] = []
    for rule in RULES:
        found += rule(case)
    for advice in found:
        if advice.gain is not None:
            advice.predicted = case.explanation.rate * advice.gain
    # One edit for a stage: the others would be of a pipeline that has it already.
    best: dict[tuple[str, bool], Advice] = {}
    for advice in sorted(found, key=lambda each: -(each.gain or 0.0)):
        best.setdefault((advice.stage, advice.gain is None), advice)
    return list(best.values())[:MOST_ADVICE]


def usable_memory() -> int | None:
    """Bytes that may still be had, or None."""
    from ipufeed.benchmark.measuring.machine import memory

    return memory("MemAvailable") or os.sysconf("SC_PAGE_SIZE") * os.sysconf(
        "SC_AVPHYS_PAGES"
    )
