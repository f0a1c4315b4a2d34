"""`--verify`: measures the pipeline with each piece of advice applied.

The edit is made in the graph of the pipeline as it was written, so that the edited pipeline
gets tf.data's rewrites and the user's options. Both pipelines are measured alternately, in
several short runs each, so that other load on the machine affects both; the gain is the
ratio of the medians.
"""

from __future__ import annotations

import copy
import statistics

import tensorflow as tf

from ipufeed.benchmark.advice.advice import Advice
from ipufeed.benchmark.graph.edits import last_node
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, Step
from ipufeed.benchmark.stages.measure_alone import rate_of
from ipufeed.tf_types import Dataset

ROUNDS = 3
# Advice held if at least this fraction of the predicted gain was measured.
HELD_FRACTION = 0.5


def verify(
    advice: list[Advice],
    dataset: Dataset,
    graph: PipelineGraph,
    seconds: float,
    rate: float,
) -> None:
    """Sets the measured rate and gain of each piece of advice.

    Args:
        advice: Advice without an edit, or that cannot be tried, gets a note.
        dataset: The user's dataset.
        graph: Its rewritten graph, which `advice` refers to.
        seconds: Length of each run; an edit takes six of them, and their starts.
        rate: Elements per second of the measurement.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    if not any(each.edit or each.pool for each in advice):
        return
    written = PipelineGraph.of(dataset, rewritten=False)
    for each in advice:
        if each.edit is None and each.pool is None:
            each.note = "not tried: only the author of the program can edit it"
            continue
        edited = copy.deepcopy(written.graph)
        try:
            if each.edit is not None:
                node = _same_step(graph, each.node, written)
                if node is None:
                    each.note = "not tried: tf.data made this stage, by fusing others"
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
            each.held = gain - 1 >= HELD_FRACTION * (each.gain - 1)


def gain_of(dataset: Dataset, changed: Dataset, seconds: float) -> float | None:
    """Returns the rate of `changed` divided by that of `dataset`; None: too few."""
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


def _same_step(graph: PipelineGraph, node: str, written: PipelineGraph) -> str | None:
    """Returns the node of a rewritten graph's stage in the graph as written, or None."""
    step = next(each for each in graph.steps if each.node == node)
    if step.label:
        same = [each for each in written.steps if each.label == step.label]
        if len(same) == 1:
            return same[0].node
    return _by_function(step, written)


def _by_function(step: Step, written: PipelineGraph) -> str | None:
    """Returns the node of the only stage with the same functions, or None."""
    if not step.functions:
        return None
    same = [
        each
        for each in written.steps
        if set(each.functions.values()) == set(step.functions.values())
    ]
    return same[0].node if len(same) == 1 else None
