"""Where a pipeline's time goes: its stages, the most important first.

    explain(dataset, seconds, rate)     -> Explanation
    explanation.rows()                  the `stages` of the JSON

A short run of its own (probe_run.py) measures the cost of each stage, a model (model.py)
determines which of these costs matter, and measure_alone.py confirms the first stage by
running that stage alone, on a cache of its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import tensorflow as tf

from ipufeed.benchmark.graph.names import inner_names, stage_kind, stage_names
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, Step, is_dataset
from ipufeed.benchmark.graph.step_functions import nodes_of
from ipufeed.benchmark.measuring.machine import usable_cpus
from ipufeed.benchmark.result.sections import StageSection
from ipufeed.benchmark.stages.costs import build_model
from ipufeed.benchmark.stages.model import PipelineModel, StageCost
from ipufeed.benchmark.stages.probe_run import StageRun, run_with_probes
from ipufeed.tf_types import Dataset

# The budget of attribution: at most MOST_SECONDS and this fraction of the measured time.
MOST_SECONDS = 5.0
TIME_FRACTION = 0.5
# Fractions of the budget: the run with probes, and each of the two phases (start, run) of
# the first stage alone.
RUN_FRACTION = 0.6
ALONE_FRACTION = 0.15
# A stage alone is at least as fast as the pipeline that contains it, less noise.
AS_FAST_FRACTION = 0.8


@dataclass
class Stage:
    """One stage of a pipeline, with the keys of the JSON (docs/result.md).

    Attributes:
        node: Its node in the rewritten graph; not in the JSON.
        name: The user's name, or one made from its op.
        kind: TensorFlow's op, without `Dataset`.
        share: Fraction of the wall time that the stage is responsible for, in [0, 1]; 0 if
            it is overlapped by a slower stage.
        seconds_per_element: Time for each element of the pipeline, summed over its threads.
        cpu_seconds_per_element: CPU time, likewise.
        parallelism: Workers at the end of the run; None for a stage without workers.
        autotuned: Whether AUTOTUNE chose `parallelism`.
        buffered_bytes: Largest observed size of its buffer; None without a buffer.
        ceiling_elements_per_second: Rate of the pipeline if all other stages took no time.
        confirmed: Whether the ceiling was measured, with the stage alone.
        advice: The edit to make, or None.
        inside: Names of the stages that its function makes, as an interleave's does; their
            time is included.
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

    def row(self) -> StageSection:
        """Returns the stage as the JSON holds it."""
        found = {name: value for name, value in vars(self).items() if name != "node"}
        return cast(StageSection, found)


@dataclass
class Explanation:
    """The stages of a pipeline, with the model and the run that they come from.

    Attributes:
        graph: The pipeline as training runs it.
        model: Predicts the rate of the changed pipeline.
        run: The readings of the probes.
        names: Names of the stages, by node.
        stages: The most important first.
        rate: Elements per second as measured, without probes.
    """

    graph: PipelineGraph
    model: PipelineModel
    run: StageRun
    names: dict[str, str]
    stages: list[Stage]
    rate: float

    def rate_with_probes(self) -> float:
        """Returns elements per second of the run with probes."""
        return self.run.elements / self.run.wall_ns * 1e9

    def rows(self) -> list[StageSection]:
        """Returns the stages as the JSON holds them."""
        return [stage.row() for stage in self.stages]


def budget(measured_seconds: float) -> float:
    """Returns the seconds that attribution may take after a measurement of that length."""
    return min(MOST_SECONDS, TIME_FRACTION * measured_seconds)


def explain(
    dataset: Dataset,
    seconds: float,
    rate: float | None = None,
    *,
    copy_elements: bool = True,
    cut: bool = True,
) -> Explanation | None:
    """Returns the stages of a dataset.

    Iterates the dataset again from its beginning, and then its slowest stage alone.

    Args:
        dataset: Made eagerly.
        seconds: Approximate limit for all runs, the first element of each included.
        rate: Elements per second as measured. Default: that of the run with probes.
        copy_elements: Whether elements are copied, as in the measurement.
        cut: Whether to confirm the first stage.

    Returns:
        None for a dataset that cannot be explained: made in a graph, with a stage that no
            graph
        describes, or with too few elements in that time.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    if not tf.executing_eagerly() or tf.is_symbolic_tensor(dataset._variant_tensor):
        return None
    try:
        graph = PipelineGraph.of(dataset)
        run = run_with_probes(
            graph, RUN_FRACTION * seconds, copy_elements=copy_elements
        )
    except tf.errors.OpError:  # a stage without a graph, or that runs only once
        return None
    if run is None:
        return None
    model = build_model(
        graph.steps,
        run,
        usable_cpus(),
        pool=dataset.options().threading.private_threadpool_size or None,
        own_threads=_own_threads(graph),
    )
    names = stage_names(graph)
    rate = 1 / model.period if rate is None else rate
    stages = sorted(
        (_stage_of(step, graph, run, model, names, rate) for step in graph.steps),
        key=lambda stage: (-stage.share, -model.costs[stage.node].period),
    )
    if cut and stages and stages[0].share > 0:
        _confirm(stages[0], graph, run, ALONE_FRACTION * seconds, rate)
    return Explanation(
        graph=graph,
        model=model,
        run=run,
        names=names,
        stages=stages,
        rate=rate,
    )


def _own_threads(graph: PipelineGraph) -> frozenset[str]:
    """Returns the parallel interleaves whose datasets call no functions in the pool."""
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


def _stage_of(
    step: Step,
    graph: PipelineGraph,
    run: StageRun,
    model: PipelineModel,
    names: dict[str, str],
    rate: float,
) -> Stage:
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
        ceiling_elements_per_second=_ceiling(cost, model, rate),
        inside=inner_names(graph.graph, step),
    )


def _ceiling(cost: StageCost, model: PipelineModel, rate: float) -> float | None:
    """Returns the pipeline's rate if all other stages took no time; None: unbounded.

    At least the measured rate: a lower value only contains the cost of the probes.
    """
    period = max(cost.period, cost.cpu_seconds / model.cpus)
    return max(rate, 1 / period) if period > 0 else None


def _confirm(
    stage: Stage, graph: PipelineGraph, run: StageRun, seconds: float, rate: float
) -> None:
    """Replaces the ceiling by the measured rate of the stage alone, if it can be run alone.

    If that is far below the rate of the whole pipeline, measuring each of many small
    elements took longer than making it: then nothing is confirmed.
    """
    from ipufeed.benchmark.stages.measure_alone import measure_alone

    per_element = run.readings[stage.node].elements / run.elements
    alone = measure_alone(graph, stage.node, seconds)
    if alone is None or per_element <= 0:
        return
    found = alone / per_element
    if found < AS_FAST_FRACTION * rate:
        return
    stage.ceiling_elements_per_second = max(rate, found)
    stage.confirmed = True
