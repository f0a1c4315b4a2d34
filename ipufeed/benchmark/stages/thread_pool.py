"""The pool that all functions of a pipeline run in, and whether it holds the pipeline up.

It has one thread for each CPU, unless `options.threading.private_threadpool_size` says
otherwise. Functions that sleep or wait keep their thread meanwhile, and what another step
then waits for a thread looks like its own time:

    serial function    seen from outside; the books of tf.data's model have it without
    parallel function  in the books, without
    interleave         a probe inside it sees its datasets, with the waiting of their
                       functions: they have had what the others left

The books leave out what a function waits in other ways, so they are believed only where
they show that the pool is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipufeed.benchmark.stages.model import PipelineModel, Unit

# A pool whose threads functions keep busy for this share of the time is full: those of
# one step, or all together.
FULL_SHARE = 0.6
ALL_FULL_SHARE = 0.85


def settle(
    model: PipelineModel,
    booked: Mapping[str, float],
    outside: Set[str],
) -> None:
    """Takes the waiting for a thread out of all times, where the pool is full.

    Args:
        model: With units and functions as they were seen.
        booked: Seconds of serial functions by tf.data's books, by node.
        outside: Nodes of interleaves whose datasets call functions.
    """
    there = model.pool * model.period
    took = {n: min(c, booked.get(n, c)) for n, c in model.functions.items()}
    taken = sum(c for n, c in took.items() if n not in outside)
    inside = sum(c for n, c in took.items() if n in outside)
    part = min(1.0, max(0.0, there - taken) / inside) if inside > 0 else 1.0
    took = {n: c * part if n in outside else c for n, c in took.items()}
    units = [without(unit, took) for unit in model.units]
    threads = (u.period({}) for u in units if not u.functions or u.calls <= 1)
    model.pool_full = (
        sum(took.values()) >= ALL_FULL_SHARE * there
        and max(threads, default=0.0) < ALL_FULL_SHARE * model.period
    )
    if not model.pool_full:
        model.overbooked = is_overbooked(model.functions, model.pool, model.period)
        return
    model.functions, model.units = took, units
    for node, seconds in took.items():
        cost = model.costs[node]
        cost.period *= seconds / cost.seconds if cost.seconds > 0 else 1.0
        cost.seconds = seconds


def without(unit: Unit, took: Mapping[str, float]) -> Unit:
    """A unit with what its functions have taken, without waiting."""
    return replace(
        unit,
        steps={n: min(c, took.get(n, c)) for n, c in unit.steps.items()},
        fetched={n: min(c, took.get(n, c)) for n, c in unit.fetched.items()},
    )


def is_overbooked(functions: Mapping[str, float], threads: int, period: float) -> bool:
    """Whether functions took more than the pool has in a period."""
    return sum(functions.values()) / threads > period / ALL_FULL_SHARE


def fills_it_together(model: PipelineModel) -> bool:
    """Whether all functions together, and no thread alone, hold the pipeline up."""
    if model.overbooked:
        return False
    period = sum(model.functions.values()) / model.pool
    longest = max((unit.period({}) for unit in model.units), default=0.0)
    return period >= ALL_FULL_SHARE * model.period and period > longest


def one_step_fills_it(model: PipelineModel) -> bool:
    """Whether functions of one step that sleep or wait have taken all of its threads."""
    filled = max(
        (
            sum(unit.steps.values()) / model.period
            for unit in model.units
            if unit.functions and unit.workers >= model.pool and not unit.own_threads
        ),
        default=0.0,
    )
    return filled >= FULL_SHARE * model.pool
