"""The thread pool that runs all functions of a pipeline, and whether it is the bottleneck.

It has one thread for each CPU, unless `options.threading.private_threadpool_size` sets
another number. A function that sleeps or waits keeps its thread, and the time that another
stage then waits for a thread looks like that stage's own:

    serial function    measured from outside, this wait included; tf.data's model has its
                       time without
    parallel function  in tf.data's model, without
    interleave         a probe inside measures its datasets with the waits of their
                       functions: these got the threads that the others left

tf.data's model does not account for other waits inside a function, so its times are only
used where they show that the pool is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipufeed.benchmark.stages.model import PipelineModel, Station

# The pool is full if functions keep its threads busy for this fraction of the time: those
# of one stage, or of all stages together.
FULL_FRACTION = 0.6
ALL_FULL_FRACTION = 0.85


def remove_waits(
    model: PipelineModel,
    booked: Mapping[str, float],
    outside: Set[str],
) -> None:
    """Subtracts the time spent waiting for a thread from all times, if the pool is full.

    Args:
        model: With stations and functions as measured.
        booked: Seconds of serial functions by tf.data's model, by node.
        outside: Nodes of interleaves whose datasets call functions.
    """
    available = model.pool * model.period
    took = {n: min(c, booked.get(n, c)) for n, c in model.functions.items()}
    taken = sum(c for n, c in took.items() if n not in outside)
    inside = sum(c for n, c in took.items() if n in outside)
    part = min(1.0, max(0.0, available - taken) / inside) if inside > 0 else 1.0
    took = {n: c * part if n in outside else c for n, c in took.items()}
    stations = [_without_waits(station, took) for station in model.stations]
    threads = (u.period({}) for u in stations if not u.functions or u.calls <= 1)
    model.pool_full = (
        sum(took.values()) >= ALL_FULL_FRACTION * available
        and max(threads, default=0.0) < ALL_FULL_FRACTION * model.period
    )
    if not model.pool_full:
        all_s = sum(model.functions.values())
        model.overbooked = all_s / model.pool > model.period / ALL_FULL_FRACTION
        return
    model.functions, model.stations = took, stations
    for node, seconds in took.items():
        cost = model.costs[node]
        cost.period *= seconds / cost.seconds if cost.seconds > 0 else 1.0
        cost.seconds = seconds


def _without_waits(station: Station, took: Mapping[str, float]) -> Station:
    return replace(
        station,
        steps={n: min(c, took.get(n, c)) for n, c in station.steps.items()},
        fetched={n: min(c, took.get(n, c)) for n, c in station.fetched.items()},
    )


def all_steps_fill_it(model: PipelineModel) -> bool:
    """Returns whether all functions together, and not one thread, are the bottleneck."""
    if model.overbooked:
        return False
    period = sum(model.functions.values()) / model.pool
    longest = max((station.period({}) for station in model.stations), default=0.0)
    return period >= ALL_FULL_FRACTION * model.period and period > longest


def one_step_fills_it(model: PipelineModel) -> bool:
    """Returns whether functions of one stage that sleep or wait occupy all threads."""
    filled = max(
        (
            sum(station.steps.values()) / model.period
            for station in model.stations
            if station.functions
            and station.workers >= model.pool
            and not station.own_threads
        ),
        default=0.0,
    )
    return filled >= FULL_FRACTION * model.pool
