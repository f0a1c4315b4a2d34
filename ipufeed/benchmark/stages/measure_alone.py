"""Measures a stage alone: without the stages above it, on a cache of its inputs.

Its rate is then its own ceiling. The inputs go through take, cache and repeat; function,
parallelism and options of the stage are unchanged.
"""

from __future__ import annotations

import copy
import time

import tensorflow as tf

from ipufeed.benchmark.graph.edits import add_cache, replace_input
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph
from ipufeed.benchmark.measuring.run import Progress, run_measurement
from ipufeed.tf_types import Dataset

# Cached elements of each input. More would represent the dataset better, and take longer
# to fill than there is time.
CACHED_ELEMENTS = 16
# Fraction of the run in which the cache is filled and AUTOTUNE settles; not counted.
SETTLING_FRACTION = 0.3
FEWEST_ELEMENTS = 3


class _TooLateError(Exception):
    """The first element took longer than allowed."""


def measure_alone(graph: PipelineGraph, node: str, seconds: float) -> float | None:
    """Returns the stage's elements per second when its inputs take no time.

    Args:
        graph: Rewritten, as training runs it.
        node: The stage's node.
        seconds: Time to measure after the first element, which may take as long.

    Returns:
        None for a stage that gives variants (a window), that cannot be run alone, or that
        is too slow for the time.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    step = next(step for step in graph.steps if step.node == node)
    spec = graph.spec_of(node)
    edited = copy.deepcopy(graph.graph)
    for each in dict.fromkeys(step.inputs):
        if graph.spec_of(each) is None:
            return None
        replace_input(edited, node, each, add_cache(edited, each, CACHED_ELEMENTS))
    if spec is None:
        return None
    try:
        dataset = graph.without_rewrites(edited, node, spec)
        return rate_of(dataset, seconds)
    except tf.errors.OpError:
        return None


def rate_of(dataset: Dataset, seconds: float) -> float | None:
    """Returns elements per second of a short run, its start left out; None: too few."""
    asked_ns = time.monotonic_ns()

    def follow(progress: Progress) -> None:
        if progress.first_ns == 0 and time.monotonic_ns() - asked_ns > seconds * 1e9:
            raise _TooLateError

    raw, interruption = run_measurement(
        dataset, {"seconds_ns": max(1, round(seconds * 1e9)), "copy": False}, follow
    )
    if interruption is not None and not isinstance(interruption, _TooLateError):
        raise interruption
    if raw is None or raw.failure is not None:
        return None
    stamps = raw.stamps
    kept = (
        stamps[stamps >= stamps[0] + SETTLING_FRACTION * seconds * 1e9]
        if len(stamps)
        else stamps
    )
    if len(kept) < FEWEST_ELEMENTS or kept[-1] <= kept[0]:
        return None
    return float((len(kept) - 1) / ((kept[-1] - kept[0]) / 1e9))
