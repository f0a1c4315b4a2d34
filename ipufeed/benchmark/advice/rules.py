"""The rules: each looks at a pipeline and proposes edits, or nothing.

A rule that names a stage needs it to matter: what hides behind a slower stage is left
alone. Gains come from the model, with the CPUs that there are, so that nothing parallel
is proposed where the CPUs are used up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ipufeed.benchmark.advice.advice import Advice, Case
from ipufeed.benchmark.advice.rules_memory import (
    floats_from_bytes,
    large_shuffle,
    missing_cache,
)
from ipufeed.benchmark.advice.rules_workers import more_workers
from ipufeed.benchmark.graph import edits
from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.graph.step_functions import (
    is_elementwise,
    reads_files,
    runs_python,
)

# Files to read side by side, when there was one.
FILES = 4
# What tf.data spends at most on calling a function, of CPU: what takes longer works.
CALL_S = 60e-6
# What an element takes that is in a batch already: to be computed, and to be copied.
BATCHED_S_PER_BYTE = 1e-9
BATCHED_S = 0.5e-6
# A buffer between two threads costs about this for an element, on a busy machine.
HAND_OVER_S = 100e-6
# Workers of a parallel stage that is waited for, and works less than this: its elements
# wait for a thread.
IDLE_WORKERS_SHARE = 0.6


def serial_map(case: Case) -> list[Advice]:
    """A map that runs one call at a time."""
    found = []
    for stage in case.important():
        step = case.step(stage)
        # tf.data fuses a serial map with the batch behind it, and leaves it serial.
        fused = step.op == "MapAndBatchDataset" and stage.parallelism == 1
        if step.op != "MapDataset" and not fused:
            continue
        graph = case.explanation.graph.graph
        # It holds the interpreter's lock: a second one would wait for it.
        if case.computes(stage) and runs_python(graph, step):
            found.append(
                Advice(
                    "python_function",
                    stage.name,
                    stage.node,
                    f"write map `{stage.name}` in TensorFlow's ops: it computes in "
                    "Python, where one call runs at a time, parallel or not",
                )
            )
            continue
        model = case.explanation.model
        gain = case.gain(model.predict({}, {stage.node: case.workers()}))
        if gain is None or model.pool_full:
            continue
        found.append(
            Advice(
                "serial_map",
                stage.name,
                stage.node,
                f"parallelise map `{stage.name}` with num_parallel_calls="
                "tf.data.AUTOTUNE",
                gain,
                edits.parallelize_map,
            )
        )
    return found


def serial_interleave(case: Case) -> list[Advice]:
    """An interleave, or one file after another, in a single thread."""
    found = []
    for stage in case.important():
        step = case.step(stage)
        graph = case.explanation.graph.graph
        edit: Callable[[Any, str], None]
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
            found.append(
                Advice("serial_interleave", stage.name, stage.node, text, gain, edit)
            )
    return found


def missing_prefetch(case: Case) -> list[Advice]:
    """Two costly stages one after the other in a thread, which could overlap."""
    model, run = case.explanation.model, case.explanation.run
    unit = model.critical
    if unit is None:
        return []
    best: tuple[float, str] | None = None
    for node in [s.node for s in case.explanation.graph.steps]:
        # In the thread that holds the pipeline up, or that its only call fetches from:
        # several calls overlap.
        fetched = node in unit.fetched and unit.calls <= 1
        if not fetched and (unit.functions or node not in unit.steps):
            continue
        below = model.costs[node].seconds + sum(
            model.costs[each].seconds for each in model.below[node]
        )
        # Before a batch, many elements are handed over for one of the pipeline.
        handed = max(1.0, run.readings[node].elements / run.elements)
        if below < HAND_OVER_S * handed:
            continue
        gain = model.predict_prefetch(node)
        if best is None or gain > best[0]:
            best = (gain, node)
    if best is None or case.gain(best[0]) is None:
        return []
    name = case.explanation.names[best[1]]
    return [
        Advice(
            "missing_prefetch",
            name,
            best[1],
            f"put .prefetch(tf.data.AUTOTUNE) behind `{name}`: what comes before it and "
            "what comes after then run side by side",
            best[0],
            edits.prefetch_behind,
        )
    ]


def map_before_batch(case: Case) -> list[Advice]:
    """A small elementwise function, called for each element and not for each batch."""
    found = []
    explanation = case.explanation
    for stage in case.important():
        step = case.step(stage)
        if step.op not in ("MapDataset", "ParallelMapDatasetV2", "MapAndBatchDataset"):
            continue
        if not is_elementwise(explanation.graph.graph, step):
            continue
        if step.op == "MapAndBatchDataset":
            batch = batch_of(case, stage.node)
        else:
            readers = case.readers(stage.node)
            if len(readers) != 1 or "Batch" not in readers[0].kind:
                continue
            batch = batch_of(case, readers[0].node)
        if batch is None or batch < 2:
            continue
        if stage.cpu_seconds_per_element / batch > CALL_S:
            continue  # the work itself, which a batch does not make less
        staying = batch * (BATCHED_S + BATCHED_S_PER_BYTE * element_bytes(case, step))
        factor = min(1.0, 1 / batch + staying / max(stage.seconds_per_element, 1e-9))
        gain = case.gain(explanation.model.predict({stage.node: factor}))
        if gain is not None:
            found.append(
                Advice(
                    "map_before_batch",
                    stage.name,
                    stage.node,
                    f"batch before map `{stage.name}`: its function works on a batch as "
                    "on an element, and need not be called for each one",
                    gain,
                )
            )
    return found


def element_bytes(case: Case, step: Step) -> int:
    """Of an element that a map gets, as far as its shape is known."""
    spec = case.explanation.graph.spec_of(step.inputs[0])
    if spec is None:
        return 0
    return sum(int(each.dtype.size * (each.shape.num_elements() or 0)) for each in spec)


def batch_of(case: Case, node: str) -> float | None:
    """Elements in one batch of a step, as counted."""
    run = case.explanation.run
    step = next(s for s in case.explanation.graph.steps if s.node == node)
    batches = run.readings[node].elements
    if not step.inputs or batches == 0:
        return None
    return run.readings[step.inputs[0]].elements / batches


def strict_order(case: Case) -> list[Advice]:
    """Workers that wait because their elements must come out in order."""
    found = []
    explanation = case.explanation
    # In a full pool workers wait for its threads: rules_workers.py.
    if explanation.model.cpu_bound or explanation.model.pool_full:
        return []
    for stage in case.important():
        step = case.step(stage)
        if step.op not in ("ParallelMapDatasetV2", "ParallelInterleaveDatasetV4"):
            continue
        if not stage.parallelism or stage.parallelism < 2:
            continue
        reading = explanation.run.readings[stage.node]
        attribute = next(
            node.attr["deterministic"].s
            for node in explanation.graph.graph.node
            if node.name == stage.node
        )
        if attribute == b"false" or not stage.confirmed:
            continue
        working = reading.model_ns / stage.parallelism / explanation.run.wall_ns
        if not 0.05 < working < IDLE_WORKERS_SHARE:
            continue
        gain = case.gain(min(2.0, IDLE_WORKERS_SHARE / working))
        if gain is not None and step.op == "ParallelMapDatasetV2":
            found.append(
                Advice(
                    "strict_order",
                    stage.name,
                    stage.node,
                    f"let map `{stage.name}` give its elements in any order with "
                    f"deterministic=False, if training can take that: its "
                    f"{stage.parallelism} workers are busy {working:.0%} of the time",
                    None,
                    edits.let_order_go,
                )
            )
    return found


def no_cpu_left(case: Case) -> list[Advice]:
    """All CPUs busy: only less work helps."""
    explanation = case.explanation
    if not explanation.model.cpu_bound or not explanation.stages:
        return []
    stage = max(explanation.stages, key=lambda s: s.cpu_seconds_per_element)
    cpus = explanation.model.cpus
    if cpus < 0.9 * case.usable_cpus:
        return []  # others have them: that is a warning of its own
    return [
        Advice(
            "no_cpu_left",
            stage.name,
            stage.node,
            f"all {case.usable_cpus} CPUs are busy, most with `{stage.name}` "
            f"({stage.cpu_seconds_per_element * 1e3:.3g} ms of CPU per element): more "
            "parallelism does not help, only less work or more CPUs",
        )
    ]


RULES: tuple[Callable[[Case], list[Advice]], ...] = (
    serial_map,
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
