"""The rules: each takes a case and returns advice.

Most consider only stages with a considerable share: the ones overlapped by a slower stage
are left alone. Gains come from the model, with the available CPUs, so that nothing parallel
is proposed where the CPUs are busy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ipufeed.benchmark.advice.advice import Advice, Case, Edit
from ipufeed.benchmark.advice.rules_memory import (
    floats_from_bytes,
    large_shuffle,
    missing_cache,
)
from ipufeed.benchmark.advice.rules_workers import PARALLEL, more_workers
from ipufeed.benchmark.graph import edits
from ipufeed.benchmark.graph.pipeline_graph import Step, find_node
from ipufeed.benchmark.graph.step_functions import (
    is_elementwise,
    reads_files,
    runs_python,
)
from ipufeed.render.units import duration

MOST_ADVICE = 3
# Files to read in parallel instead of one.
FILES = 4
# Upper bound of tf.data's own CPU time for a call of a function: a longer call does work.
CALL_S = 60e-6
# Costs of an element inside a batch: its computation by bytes, and its copy.
BATCHED_S_PER_BYTE = 1e-9
BATCHED_S = 0.5e-6
# Approximate cost of a buffer between two threads for each element, on a busy machine.
HAND_OVER_S = 100e-6
# Workers of a parallel bottleneck that are busy for less than this fraction of the time
# wait because of the order of elements.
IDLE_WORKERS_FRACTION = 0.6


def find_advice(case: Case) -> list[Advice]:
    """Returns the advice worth giving, the largest gain first."""
    found = [advice for rule in RULES for advice in rule(case)]
    for advice in found:
        if advice.gain is not None:
            advice.predicted = case.explanation.rate * advice.gain
    # One edit for each stage: the gains of others are for a pipeline without this edit.
    best: dict[tuple[str, bool], Advice] = {}
    for advice in sorted(found, key=lambda each: -(each.gain or 0.0)):
        best.setdefault((advice.stage, advice.gain is None), advice)
    return list(best.values())[:MOST_ADVICE]


def serial_map(case: Case) -> list[Advice]:
    """Advises to parallelise a map that runs one call at a time."""
    found = []
    for stage in case.important():
        step = case.step(stage)
        # tf.data fuses a serial map with the batch after it, and leaves it serial.
        fused = step.op == "MapAndBatchDataset" and stage.parallelism == 1
        if step.op != "MapDataset" and not fused:
            continue
        graph = case.explanation.graph.graph
        if case.computes(stage) and runs_python(graph, step):
            continue  # a second call would wait for the GIL
        model = case.explanation.model
        gain = case.gain(model.predict({}, {stage.node: case.workers()}))
        if gain is None or model.pool_full:
            continue
        text = (
            f"parallelise map `{stage.name}` with num_parallel_calls=tf.data.AUTOTUNE"
        )
        edit = edits.parallelize_map
        found.append(case.advise("serial_map", stage.node, text, gain, edit))
    return found


def python_function(case: Case) -> list[Advice]:
    """Advises against Python in a map that computes, where the calls share one CPU."""
    found = []
    for stage in case.important():
        step = case.step(stage)
        if step.op not in ("MapDataset", *PARALLEL) or not case.computes(stage):
            continue
        if not runs_python(case.explanation.graph.graph, step):
            continue
        if (stage.parallelism or 1) > 1 and not case.shares_one_cpu(stage):
            continue
        text = (
            f"write map `{stage.name}` in TensorFlow's ops: it computes in "
            "Python, where one call runs at a time, parallel or not"
        )
        found.append(case.advise("python_function", stage.node, text))
    return found


def serial_interleave(case: Case) -> list[Advice]:
    """Advises to parallelise an interleave, or the reading of one file after another."""
    found = []
    for stage in case.important():
        step = case.step(stage)
        graph = case.explanation.graph.graph
        edit: Edit
        if step.op == "InterleaveDataset":
            text = (
                f"parallelise interleave `{stage.name}` with num_parallel_calls="
                "tf.data.AUTOTUNE"
            )
            edit, workers = edits.parallelize_interleave, case.workers()
        elif step.op == "FlatMapDataset" and reads_files(graph, step):
            if case.elements_of_source(step.inputs) == 1:
                continue  # a single file: nothing to read in parallel
            text = (
                f"read several files at a time in `{stage.name}`: files.interleave("
                f"tf.data.TFRecordDataset, cycle_length={FILES}, "
                "num_parallel_calls=tf.data.AUTOTUNE)"
            )
            edit = partial(edits.interleave_files, files=FILES)
            workers = min(float(FILES), case.workers())
        else:
            continue
        gain = case.gain(case.explanation.model.predict({}, {stage.node: workers}))
        if gain is not None:
            found.append(case.advise("serial_interleave", stage.node, text, gain, edit))
    return found


def missing_prefetch(case: Case) -> list[Advice]:
    """Advises a prefetch between costly stages of one thread, which could overlap."""
    model, run = case.explanation.model, case.explanation.run
    station = model.critical
    if station is None:
        return []
    gains: dict[str, float] = {}
    for step in case.explanation.graph.steps:
        node = step.node
        # Stages of the critical thread, or those that its only call fetches from: several
        # calls overlap.
        fetched = node in station.fetched and station.calls <= 1
        if not fetched and (station.functions or node not in station.steps):
            continue
        below = sum(model.costs[each].seconds for each in (node, *model.below[node]))
        # Before a batch, many elements are handed over for one of the pipeline.
        handed = max(1.0, run.readings[node].elements / run.elements)
        if below >= HAND_OVER_S * handed:
            gains[node] = model.predict_prefetch(node)
    best = max(gains, key=lambda node: gains[node], default=None)
    if best is None or case.gain(gains[best]) is None:
        return []
    text = (
        f"put .prefetch(tf.data.AUTOTUNE) after `{case.explanation.names[best]}`: the "
        "stages before and after it then run in parallel"
    )
    edit = edits.prefetch_behind
    return [case.advise("missing_prefetch", best, text, gains[best], edit)]


def map_before_batch(case: Case) -> list[Advice]:
    """Advises to batch before a small elementwise function."""
    found = []
    explanation = case.explanation
    for stage in case.important():
        step = case.step(stage)
        if step.op not in ("MapDataset", "ParallelMapDatasetV2", "MapAndBatchDataset"):
            continue
        if not is_elementwise(explanation.graph.graph, step):
            continue
        if step.op == "MapAndBatchDataset":
            batch = _batch_size(case, step)
        else:
            readers = case.readers(stage.node)
            if len(readers) != 1 or "Batch" not in readers[0].kind:
                continue
            batch = _batch_size(case, readers[0])
        if batch is None or batch < 2:
            continue
        if stage.cpu_seconds_per_element / batch > CALL_S:
            continue  # the work itself, which a batch does not reduce
        staying = batch * (BATCHED_S + BATCHED_S_PER_BYTE * _element_bytes(case, step))
        factor = min(1.0, 1 / batch + staying / max(stage.seconds_per_element, 1e-9))
        gain = case.gain(explanation.model.predict({stage.node: factor}))
        if gain is not None:
            text = (
                f"batch before map `{stage.name}`: its function works on a batch as on "
                "an element, and need not be called for each one"
            )
            found.append(case.advise("map_before_batch", stage.node, text, gain))
    return found


def _element_bytes(case: Case, step: Step) -> int:
    """Returns the bytes of a map's input element, as far as its shape is known."""
    spec = case.explanation.graph.spec_of(step.inputs[0])
    if spec is None:
        return 0
    return sum(int(each.dtype.size * (each.shape.num_elements() or 0)) for each in spec)


def _batch_size(case: Case, step: Step) -> float | None:
    """Returns the elements in a batch of a stage, as counted by the probes."""
    readings = case.explanation.run.readings
    batches = readings[step.node].elements
    if not step.inputs or batches == 0:
        return None
    return readings[step.inputs[0]].elements / batches


def strict_order(case: Case) -> list[Advice]:
    """Advises any order of elements where workers wait for the order."""
    found = []
    explanation = case.explanation
    # In a full pool workers wait for its threads: rules_workers.py.
    if explanation.model.cpu_bound or explanation.model.pool_full:
        return []
    for stage in case.important():
        step = case.step(stage)
        if step.op != "ParallelMapDatasetV2" or not stage.confirmed:
            continue
        if not stage.parallelism or stage.parallelism < 2:
            continue
        node = find_node(explanation.graph.graph, stage.node)
        if node.attr["deterministic"].s == b"false":
            continue
        run = explanation.run
        model_ns = run.readings[stage.node].model_ns
        working = model_ns / stage.parallelism / run.wall_ns
        if not 0.05 < working < IDLE_WORKERS_FRACTION:
            continue
        if case.gain(min(2.0, IDLE_WORKERS_FRACTION / working)) is None:
            continue
        text = (
            f"let map `{stage.name}` give its elements in any order with "
            f"deterministic=False, if training can take that: its "
            f"{stage.parallelism} workers are busy {working:.0%} of the time"
        )
        edit = edits.let_order_go
        found.append(case.advise("strict_order", stage.node, text, edit=edit))
    return found


def no_cpu_left(case: Case) -> list[Advice]:
    """Advises less work where all CPUs are busy."""
    explanation = case.explanation
    if not explanation.model.cpu_bound or not explanation.stages:
        return []
    if explanation.model.cpus < 0.9 * case.usable_cpus:
        return []  # other processes use them, which has a warning of its own
    stage = max(explanation.stages, key=lambda s: s.cpu_seconds_per_element)
    text = (
        f"all {case.usable_cpus} CPUs are busy, most with `{stage.name}` "
        f"({duration(stage.cpu_seconds_per_element)} of CPU per element): more "
        "parallelism does not help, only less work or more CPUs"
    )
    return [case.advise("no_cpu_left", stage.node, text)]


RULES: tuple[Callable[[Case], list[Advice]], ...] = (
    serial_map,
    python_function,
    serial_interleave,
    missing_prefetch,
    missing_cache,
    map_before_batch,
    floats_from_bytes,
    large_shuffle,
    strict_order,
    more_workers,
    no_cpu_left,
)
