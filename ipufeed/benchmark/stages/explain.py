"""Where a pipeline's time goes: its stages, the most important first.

    explain(dataset, seconds, rate)     -> Explanation
    explanation.rows()                  the `stages` of the JSON

A short run of its own (probe_run.py) gives what each step costs, a model (model.py)
says which of that matters, and a cut (measure_alone.py) confirms the first one: the step
alone, fed from a cache of its inputs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ipufeed.benchmark.graph.names import inner_names, stage_kind, stage_names
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, Step, is_dataset
from ipufeed.benchmark.graph.step_functions import nodes_of
from ipufeed.benchmark.stages.costs import build_model
from ipufeed.benchmark.stages.model import PipelineModel, StageCost
from ipufeed.benchmark.stages.probe_run import StageRun, run_with_probes
from ipufeed.tf_types import Dataset

# The most that attribution takes, and the part of the measuring time that it may take.
MOST_SECONDS = 5.0
TIME_SHARE = 0.5
# Of that, the run with probes; the rest is for the cut.
RUN_SHARE = 0.6
CUT_SHARE = 0.15
# A step alone is as fast as the pipeline with it, up to noise.
AS_FAST_SHARE = 0.8


@dataclass
class Stage:
    """One step of a pipeline as the JSON has it; docs/result.md says how to read it.

    Attributes:
        node: In the rewritten graph; not in the JSON.
        name: The user's for it, or one made from its op.
        kind: TensorFlow's op, without `Dataset`.
        share: Of the wall time that matters, 0..1: 0 if it hides behind another.
        seconds_per_element: What an element of the pipeline costs it, all its threads
            together.
        cpu_seconds_per_element: Likewise.
        parallelism: Workers that it had at the end; None if it has none.
        buffered_bytes: The most that its buffer was seen to hold; None: no buffer.
        ceiling_elements_per_second: Of the pipeline, were this step alone in it.
        confirmed: Whether the ceiling was measured, by a cut.
        advice: What to change, or None.
        inside: Names of the steps that its function makes, as an interleave's does: their
            time is in it.
    """

    node: str
    name: str
    kind: str
    share: float
    seconds_per_element: float
    cpu_seconds_per_element: float
    parallelism: int | None
    autotuned: bool
    buffered_bytes: int | None
    ceiling_elements_per_second: float | None
    confirmed: bool = False
    advice: str | None = None
    inside: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """For the JSON."""
        return {name: value for name, value in vars(self).items() if name != "node"}


@dataclass
class Explanation:
    """Stages, and what they were found with.

    Attributes:
        graph: The pipeline as training runs it.
        model: Predicts.
        run: What the probes saw.
        names: By node.
        stages: The most important first.
        rate: Elements per second that were measured, without probes.
        seconds: That it took to find out.
        advice: See advice.py.
    """

    graph: PipelineGraph
    model: PipelineModel
    run: StageRun
    names: dict[str, str]
    stages: list[Stage]
    rate: float
    seconds: float
    advice: list[Any] = field(default_factory=list)

    def rate_with_probes(self) -> float:
        """Elements per second of the run that they were found in."""
        return self.run.elements / self.run.wall_ns * 1e9

    def rows(self) -> list[dict[str, Any]]:
        """The stages as the JSON has them."""
        return [stage.row() for stage in self.stages]


def budget(measured_seconds: float) -> float:
    """Seconds that attribution may take in addition to the measured ones."""
    return min(MOST_SECONDS, TIME_SHARE * measured_seconds)


def explain(
    dataset: Dataset,
    seconds: float,
    rate: float | None = None,
    *,
    copy_elements: bool = True,
    cut: bool = True,
) -> Explanation | None:
    """Finds the stages of a dataset.

    The dataset is iterated again, and then its slowest step alone. Both see the elements
    from their beginning.

    Args:
        dataset: Made eagerly.
        seconds: For all of it, about; the first element of each run included.
        rate: Elements per second as measured. Default: as this run measures it.
        copy_elements: As in the measurement.
        cut: Whether to confirm the first stage.

    Returns:
        None for a dataset that cannot be explained: made in a graph, of a step that no
        graph describes, or with too few elements in the time there is.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import tensorflow as tf

    from ipufeed.benchmark.measuring.machine import usable_cpus

    started = time.monotonic()
    if not tf.executing_eagerly() or tf.is_symbolic_tensor(dataset._variant_tensor):
        return None
    try:
        graph = PipelineGraph.of(dataset)
        run = run_with_probes(graph, RUN_SHARE * seconds, copy_elements=copy_elements)
    except tf.errors.OpError:  # a step without a graph, or that runs only once
        return None
    if run is None:
        return None
    model = build_model(
        graph.steps,
        run,
        usable_cpus(),
        pool=dataset.options().threading.private_threadpool_size or None,
        own_threads=own_threads(graph),
    )
    names = stage_names(graph)
    rate = 1 / model.period if rate is None else rate
    stages = sorted(
        (describe(step, graph, run, model, names, rate) for step in graph.steps),
        key=lambda stage: (-stage.share, -model.costs[stage.node].period),
    )
    if cut and stages and stages[0].share > 0:
        confirm(stages[0], graph, run, CUT_SHARE * seconds, rate)
    return Explanation(
        graph=graph,
        model=model,
        run=run,
        names=names,
        stages=stages,
        rate=rate,
        seconds=time.monotonic() - started,
    )


def own_threads(graph: PipelineGraph) -> frozenset[str]:
    """Parallel interleaves whose datasets call no functions: none of the pool's threads."""
    return frozenset(
        step.node
        for step in graph.steps
        if step.op == "ParallelInterleaveDatasetV4"
        and not any(
            is_dataset(node.op)
            and any(v.WhichOneof("value") == "func" for v in node.attr.values())
            for node in nodes_of(graph.graph, step)
        )
    )


def describe(
    step: Step,
    graph: PipelineGraph,
    run: StageRun,
    model: PipelineModel,
    names: dict[str, str],
    rate: float,
) -> Stage:
    """A step as a stage, of a pipeline that gives `rate` elements per second."""
    reading, cost = run.readings[step.node], model.costs[step.node]
    return Stage(
        node=step.node,
        name=names[step.node],
        kind=stage_kind(graph, step),
        share=cost.share,
        seconds_per_element=cost.seconds,
        cpu_seconds_per_element=cost.cpu_seconds,
        parallelism=reading.parallelism if reading.parallelism > 0 else None,
        autotuned=reading.tuned == 1,
        buffered_bytes=reading.buffered_bytes
        if reading.buffered_bytes > 0
        or (reading.is_async == 1 and reading.buffered_bytes == 0)
        else None,
        ceiling_elements_per_second=ceiling(cost, model, rate),
        inside=inner_names(graph.graph, step),
    )


def ceiling(cost: StageCost, model: PipelineModel, rate: float) -> float | None:
    """Elements per second of a pipeline in which all else is free; None: no bound.

    No less than what the whole pipeline gives: below it there are only the probes' costs.
    """
    period = max(cost.period, cost.cpu_seconds / model.cpus)
    return max(rate, 1 / period) if period > 0 else None


def confirm(
    stage: Stage, graph: PipelineGraph, run: StageRun, seconds: float, rate: float
) -> None:
    """Replaces a ceiling by what the step gives alone, where it can be had.

    Where that is much less than the pipeline with the step in it gives, each of many
    small elements has cost more to look at than to make: nothing is confirmed.
    """
    from ipufeed.benchmark.stages.measure_alone import measure_alone

    per_element = run.readings[stage.node].elements / run.elements
    alone = measure_alone(graph, stage.node, seconds)
    if alone is None or per_element <= 0:
        return
    found = alone / per_element
    if found < AS_FAST_SHARE * rate:
        return
    stage.ceiling_elements_per_second = max(rate, found)
    stage.confirmed = True
