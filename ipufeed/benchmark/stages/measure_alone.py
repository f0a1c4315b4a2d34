"""A step alone: all above it left out, and a cache of its inputs below.

What it gives then is its own ceiling. Only public steps of tf.data are used (take, cache,
repeat), and the step itself with its function, parallelism and options as they are.
"""

from __future__ import annotations

import copy
import time

from ipufeed.benchmark.graph.edits import add_cache, replace_input
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph
from ipufeed.benchmark.measuring.run import Progress, run_measurement
from ipufeed.tf_types import Dataset

# Elements of each input to keep. More would be closer to all that there are, and take
# longer to fill than there is time.
KEPT_ELEMENTS = 16
# The part of the run that is for the cache to fill and AUTOTUNE to settle.
SETTLING_SHARE = 0.3
FEWEST_ELEMENTS = 3


class _TooLateError(Exception):
    """The first element did not come in time."""


def measure_alone(graph: PipelineGraph, node: str, seconds: float) -> float | None:
    """Elements of the step per second when its inputs cost nothing.

    Args:
        graph: Rewritten, as training runs it.
        node: The step's.
        seconds: To measure for, after the first element; as long again to get there.

    Returns:
        None for a step that gives variants (a window), that cannot be cut off, or that
        is too slow for the time.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import tensorflow as tf

    step = next(step for step in graph.steps if step.node == node)
    spec = graph.spec_of(node)
    edited = copy.deepcopy(graph.graph)
    for each in dict.fromkeys(step.inputs):
        if graph.spec_of(each) is None:
            return None
        replace_input(edited, node, each, add_cache(edited, each, KEPT_ELEMENTS))
    if spec is None:
        return None
    try:
        dataset = graph.as_it_is(edited, node, spec)
        return rate_of(dataset, seconds)
    except tf.errors.OpError:
        return None


def rate_of(dataset: Dataset, seconds: float) -> float | None:
    """Elements per second of the last part of a short run; None for too few."""
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
        stamps[stamps >= stamps[0] + SETTLING_SHARE * seconds * 1e9]
        if len(stamps)
        else stamps
    )
    if len(kept) < FEWEST_ELEMENTS or kept[-1] <= kept[0]:
        return None
    return float((len(kept) - 1) / ((kept[-1] - kept[0]) / 1e9))
