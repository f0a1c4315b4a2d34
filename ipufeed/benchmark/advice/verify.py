"""`--verify`: tries each piece of advice, and reports whether it held.

The edit is made in the graph of the pipeline as it was written, so that the edited one
gets tf.data's rewrites and the user's options like any. Both run alternately, a short time
each and several times, so that what else the machine does meets both alike; the ratio is
that of the medians.
"""

from __future__ import annotations

import copy
import statistics
from typing import Any

from ipufeed.benchmark.advice.advice import Advice
from ipufeed.benchmark.graph.edits import last_node
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, Step
from ipufeed.benchmark.stages.measure_alone import rate_of
from ipufeed.tf_types import Dataset

ROUNDS = 3
# Of the predicted gain: what has to be there for advice to have held.
HELD_SHARE = 0.5


def verify(
    advice: list[Advice],
    dataset: Dataset,
    graph: PipelineGraph,
    seconds: float,
    rate: float,
) -> None:
    """Fills in what each edit gave.

    Args:
        advice: Those without an edit, or without a predicted gain, get a note.
        dataset: The user's.
        graph: The one that `advice` is about, rewritten.
        seconds: For each run; an edit takes six of them, and their starts.
        rate: Elements per second of the measurement.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import tensorflow as tf

    if not any(each.edit or each.pool for each in advice):
        return
    written = PipelineGraph.of(dataset, rewritten=False)
    for each in advice:
        if each.edit is None and each.pool is None:
            each.note = "not tried: it takes an edit of the program"
            continue
        edited = copy.deepcopy(written.graph)
        try:
            if each.edit is not None:
                node = same_step(graph, each.node, written)
                if node is None:
                    each.note = (
                        "not tried: tf.data has made the stage, by fusing others"
                    )
                    continue
                each.edit(edited, node)
            changed = written.with_options(edited, last_node(edited, written.root))
            if each.pool is not None:
                options = tf.data.Options()
                options.threading.private_threadpool_size = each.pool
                changed = changed.with_options(options)
            gain = gain_of(dataset, changed, seconds)
        except (tf.errors.OpError, ValueError) as error:
            each.note = f"not tried: {type(error).__name__}: {error}"
            continue
        if gain is None:
            each.note = "not tried: the runs were too short for these elements"
            continue
        each.measured_gain, each.measured = gain, gain * rate
        if each.gain is not None:
            each.held = gain - 1 >= HELD_SHARE * (each.gain - 1)


def gain_of(dataset: Dataset, changed: Any, seconds: float) -> float | None:
    """Rate of `changed` over that of `dataset`, alternately; None for too few elements."""
    before: list[float] = []
    after: list[float] = []
    for number in range(ROUNDS):
        pairs = [(dataset, before), (changed, after)]
        for each, rates in pairs if number % 2 == 0 else pairs[::-1]:
            rate = rate_of(each, seconds)
            if rate is None:
                return None
            rates.append(rate)
    return statistics.median(after) / statistics.median(before)


def same_step(graph: PipelineGraph, node: str, written: PipelineGraph) -> str | None:
    """A rewritten graph's step in the graph as written, or None."""
    step = next(each for each in graph.steps if each.node == node)
    if step.label:
        same = [each for each in written.steps if each.label == step.label]
        if len(same) == 1:
            return same[0].node
    return by_function(step, written)


def by_function(step: Step, written: PipelineGraph) -> str | None:
    """The only step with the same functions."""
    if not step.functions:
        return None
    same = [
        each
        for each in written.steps
        if set(each.functions.values()) == set(step.functions.values())
    ]
    return same[0].node if len(same) == 1 else None
