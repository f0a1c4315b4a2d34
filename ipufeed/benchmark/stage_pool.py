"""The pool that all functions of a pipeline run in, and whether it holds the pipeline up.

It has one thread for each CPU, unless `options.threading.private_threadpool_size` says
otherwise. Functions that sleep or wait keep their thread meanwhile, and what a serial step
then waits for a thread looks like its own time. So three questions have answers of their
own: is the pool what holds the pipeline up (`fills_it_together`), does one step keep the
others out of it (`one_step_fills_it`), and would more threads help (`is_full`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipufeed.benchmark.stage_model import PipelineModel

# A pool whose threads functions keep busy for this share of the time is full: those of
# one step, or all together.
FULL_SHARE = 0.6
ALL_FULL_SHARE = 0.85


def parallel_functions(model: PipelineModel) -> dict[str, float]:
    """Those in the pool of steps that call several at a time, by node."""
    several = {n for u in model.units if u.functions and u.calls > 1 for n in u.steps}
    return {n: c for n, c in model.functions.items() if n in several}


def is_full(model: PipelineModel) -> bool:
    """Whether functions, parallel ones above all, have kept all its threads busy."""
    there = model.pool * model.period
    return (
        sum(model.functions.values()) >= ALL_FULL_SHARE * there
        and sum(parallel_functions(model).values()) >= there / 2
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


def without_waiting(model: PipelineModel) -> dict[str, float]:
    """Seconds in a thread of the pool, by node, without the waiting for one.

    Those of parallel steps are so by themselves. A serial step's are seen from
    outside: all together they had what the parallel ones have left.
    """
    parallel = parallel_functions(model)
    serial = model.functions.keys() - parallel.keys()
    seen = sum(model.functions[node] for node in serial)
    room = max(0.0, model.pool * model.period - sum(parallel.values()))
    part = min(1.0, room / seen) if seen > 0 else 1.0
    return {
        node: max(seconds * part, min(seconds, model.costs[node].cpu_seconds))
        if node in serial
        else seconds
        for node, seconds in model.functions.items()
    }


def resized(
    model: PipelineModel, threads: int, calls: Mapping[str, float]
) -> PipelineModel:
    """The model of the pipeline with so many threads.

    What serial functions have waited for a thread of a full pool, they no longer do.

    Args:
        model: Of the pipeline as it is.
        threads: Of the pool.
        calls: Of parallel steps, by node, where they change.
    """
    took = without_waiting(model)
    units = []
    for unit in model.units:
        new = replace(
            unit,
            steps={n: min(c, took.get(n, c)) for n, c in unit.steps.items()},
            fetched={n: min(c, took.get(n, c)) for n, c in unit.fetched.items()},
        )
        if unit.functions and not unit.own_threads:
            (node,) = unit.steps
            most = calls.get(node, max(unit.calls, unit.workers))
            new = replace(new, workers=min(most, float(threads)), calls=most)
        units.append(new)
    return replace(model, pool=threads, units=units, functions=took, overbooked=False)
