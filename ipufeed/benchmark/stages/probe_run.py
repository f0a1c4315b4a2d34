"""Runs a pipeline with a probe after each stage, and reads the probes.

Chosen after measuring the alternatives. `tf.data.experimental.get_model_proto` alone misses
waits inside a stage (a sleep, a read over the network) and the time before a `repeat`
restarted a dataset, and has nothing with AUTOTUNE off. So a short second run has probes
between the stages of the graph as tf.data rewrote it (fused and injected stages included).
They give the wall and CPU time of each stage by difference, and read from tf.data's model
what only it has: the time of functions in a pool, AUTOTUNE's choices, buffered bytes. The
datasets inside a parallel interleave are measured by a probe in its function. With AUTOTUNE
off this run adds a model that only accounts for time. The reported run has no probes, so
that attribution costs it nothing.
"""

from __future__ import annotations

import copy
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

from ipufeed import _native
from ipufeed.benchmark.graph.pipeline_graph import (
    PipelineGraph,
    Step,
    find_node,
    node_name,
)
from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring.run import Progress, run_measurement
from ipufeed.benchmark.result.settings import MOST
from ipufeed.tf_types import Dataset, GraphDef, NodeDef

# As in ProbeReading of ipufeed/cc/measure/stage_probe.h.
PROBE_FIELDS = (
    "elements",
    "wall_ns",
    "cpu_ns",
    "model_ns",
    "is_async",
    "parallelism",
    "buffer_elements",
    "buffered_bytes",
    "tuned",
)
_SUMS = ("elements", "wall_ns", "cpu_ns", "model_ns")
# Stages that read several datasets, made by their function, at a time.
INTERLEAVES = frozenset(
    {
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "LegacyParallelInterleaveDatasetV2",
    }
)
# Kinds of stages with threads of their own; only used where a stage has no model.
_THREADED = ("Parallel", "LegacyParallel", "MapAndBatch", "Prefetch")
# Fraction of the run in which AUTOTUNE and the buffers settle; not counted.
WARM_UP_FRACTION = 0.4
# With fewer elements of the last stage in the counted part, no share is given.
FEWEST_ELEMENTS = 3
# Stages whose calls fetch their elements themselves.
FETCHING = frozenset(
    {"ParallelMapDatasetV2", "MapAndBatchDataset", "ParallelBatchDataset"}
)


@dataclass(frozen=True)
class Reading:
    """The figures of a stage in the counted part of the run (stage_probe.h). Times in ns.

    Attributes:
        inner_wall_ns: Time in the datasets that its function made, summed over the threads.
        inner_cpu_ns: CPU time of these threads in that time.
    """

    elements: int
    wall_ns: int
    cpu_ns: int
    model_ns: int
    is_async: int
    parallelism: int
    buffer_elements: int
    buffered_bytes: int
    tuned: int
    inner_wall_ns: int = 0
    inner_cpu_ns: int = 0


@dataclass(frozen=True)
class StageRun:
    """The readings of all probes.

    Attributes:
        readings: By node.
        wall_ns: Length of the counted part.
        cpu_ns: CPU time of the whole process in that time.
        others: CPUs that other processes kept busy in that time, or None.
        elements: Elements of the last stage.
    """

    readings: dict[str, Reading]
    wall_ns: int
    cpu_ns: int
    others: float | None
    elements: int


class _EnoughError(Exception):
    """Ends the run from within its progress callback."""


@dataclass
class _Sample:
    """A sample of all probes."""

    time_ns: int
    cpu_ns: int
    activity: machine.Activity
    values: list[dict[str, int]]


def run_with_probes(
    graph: PipelineGraph,
    seconds: float,
    *,
    copy_elements: bool = True,
    limit_s: float | None = None,
) -> StageRun | None:
    """Runs the pipeline for about `seconds` and returns the readings of its probes.

    A finite dataset is iterated repeatedly.

    Args:
        graph: Rewritten, as training runs it.
        seconds: Length after the first element, warm-up included.
        copy_elements: Whether elements are copied, as in the run that is explained.
        limit_s: Limit for the first element. Default: `seconds`.

    Returns:
        None if the run failed, or had too few elements.

    Raises:
        tf.errors.OpError: The pipeline with probes cannot be started.
        KeyboardInterrupt: Ctrl-C.
    """
    entry = _native.entry()
    slots = len(graph.steps) + len(_makers(graph))
    group = entry.ipufeed_probes_new(slots)
    try:
        edited, root = insert_probes(graph, group)
        dataset, attributes = _with_model(graph.without_rewrites(edited, root))
        samples: list[_Sample] = []
        follow = _follower(
            lambda: _take_sample(group, slots),
            samples,
            seconds,
            seconds if limit_s is None else limit_s,
        )
        raw, interruption = run_measurement(
            dataset,
            {
                "seconds_ns": round(2 * seconds * 1e9),
                "passes": MOST,
                "copy": copy_elements,
                **attributes,
            },
            follow,
        )
        if interruption is not None and not isinstance(interruption, _EnoughError):
            raise interruption
        if raw is not None and raw.failure is not None:
            return None
    finally:
        entry.ipufeed_probes_free(group)
    if len(samples) < 2:
        return None
    return _between(samples[0], samples[-1], graph)


def _with_model(dataset: Dataset) -> tuple[Dataset, dict[str, bool]]:
    """Returns the dataset and the op's attributes for a run whose model accounts for time.

    Without AUTOTUNE, tf.data's FinalizeDataset removes the model. The graph is rewritten
    already, so what is left of it are the pipeline's own threads, which are added here.
    """
    from tensorflow.python.data.ops import dataset_ops

    options = dataset._options_attr
    if options.autotune.enabled is not False:
        return dataset, {"modelled": True, "finalize": True}
    # The model has no node for the outermost iterator, and the last probe needs one.
    variant, structure = dataset.take(-1)._variant_tensor, dataset._flat_structure
    calls = options.threading.max_intra_op_parallelism
    if calls:
        variant = tf.raw_ops.MaxIntraOpParallelismDataset(
            input_dataset=variant, max_intra_op_parallelism=calls, **structure
        )
    threads = options.threading.private_threadpool_size
    if threads:
        variant = tf.raw_ops.PrivateThreadPoolDataset(
            input_dataset=variant, num_threads=threads, **structure
        )
    found: Dataset = dataset_ops._VariantDataset(variant, dataset.element_spec)
    return found, {"modelled": True, "finalize": False}


def _follower(
    take_sample: Callable[[], _Sample],
    samples: list[_Sample],
    seconds: float,
    limit_s: float,
) -> Callable[[Progress], None]:
    """Returns a callback that keeps the first sample after the warm-up and the last."""
    asked_ns = time.monotonic_ns()

    def follow(progress: Progress) -> None:
        now = time.monotonic_ns()
        if progress.first_ns == 0:
            if now - asked_ns > limit_s * 1e9:
                raise _EnoughError
            return
        after = (now - progress.first_ns) / 1e9
        taken = take_sample()  # each time: datasets inside a stage come and go
        if after < seconds * WARM_UP_FRACTION:
            return
        del samples[1:]
        samples.append(taken)
        if after >= seconds:
            raise _EnoughError

    return follow


def insert_probes(graph: PipelineGraph, group: int) -> tuple[GraphDef, str]:
    """Returns a copy of the graph with a probe after each stage, and its last node.

    The group has a slot for each stage, then one for the datasets of each of `_makers`.
    """
    edited = copy.deepcopy(graph.graph)
    slots = {step.node: slot for slot, step in enumerate(graph.steps)}
    for node in edited.node:
        for number, text in enumerate(node.input):
            if node_name(text) in slots and not text.startswith("^"):
                node.input[number] = _probe_name(slots[node_name(text)])
    for name, slot in slots.items():
        _set_probe(edited.node.add(), slot, group, name)
    for number, step in enumerate(_makers(graph)):
        _probe_inside(edited, step, len(slots) + number, group)
    last = graph.steps[-1].node
    return edited, _probe_name(slots[last])


def _makers(graph: PipelineGraph) -> list[Step]:
    """Returns the stages whose functions make datasets that threads of the stage read."""
    return [step for step in graph.steps if step.op in INTERLEAVES]


def _probe_inside(edited: GraphDef, step: Step, slot: int, group: int) -> None:
    """Inserts a probe after the dataset that a stage's function returns.

    In a copy of the function under another name: other stages may call it, too, and keep it
    without a probe.
    """
    library = {each.signature.name: each for each in edited.library.function}
    function = edited.library.function.add()
    function.CopyFrom(library[step.functions["f"]])
    function.signature.name += f"_{_probe_name(slot)}"
    (output,) = function.signature.output_arg
    _set_probe(function.node_def.add(), slot, group, function.ret[output.name])
    function.ret[output.name] = f"{_probe_name(slot)}:handle:0"
    node = find_node(edited, step.node)
    node.attr["f"].func.name = function.signature.name


def _set_probe(node: NodeDef, slot: int, group: int, behind: str) -> None:
    """Makes a new node of a graph or a function a probe."""
    node.name, node.op = _probe_name(slot), "IpufeedProbeDataset"
    node.input.append(behind)
    node.attr["group"].i = group
    node.attr["slot"].i = slot


def _probe_name(slot: int) -> str:
    return f"ipufeed_probe_{slot}"


def _without_model(reading: Reading, step: Step, graph: PipelineGraph) -> Reading:
    """Completes a reading by the op alone: whether it has threads, and how many."""
    threaded = step.kind.startswith(_THREADED)
    calls = _last_int(graph.graph, step.node) if threaded else None
    if calls is not None and calls <= 0:
        calls = int(_native.entry().ipufeed_usable_cpus())
    if step.kind == "Prefetch" or calls is None:
        calls = -1
    return replace(reading, is_async=int(threaded), parallelism=calls)


def _last_int(graph: GraphDef, node: str) -> int | None:
    """Returns the last of a node's inputs that is a constant integer, or None."""
    nodes = {each.name: each for each in graph.node}
    for text in reversed(nodes[node].input):
        source = nodes.get(node_name(text))
        if source is None or source.op != "Const":
            continue
        value = tf.make_ndarray(source.attr["value"].tensor)
        if value.dtype.kind == "i" and value.ndim == 0:
            return int(value)
    return None


def _take_sample(group: int, slots: int) -> _Sample:
    entry = _native.entry()
    values = (ctypes.c_int64 * len(PROBE_FIELDS))()
    table = []
    for slot in range(slots):
        entry.ipufeed_probe_read(group, slot, values)
        table.append(dict(zip(PROBE_FIELDS, values, strict=True)))
    return _Sample(
        time.monotonic_ns(), time.process_time_ns(), machine.Activity.now(), table
    )


def _between(first: _Sample, last: _Sample, graph: PipelineGraph) -> StageRun | None:
    """Returns the readings between two samples; None if there is too little to count."""
    counted = [
        {
            name: max(0, after[name] - before[name]) if name in _SUMS else after[name]
            for name in PROBE_FIELDS
        }
        for before, after in zip(first.values, last.values, strict=True)
    ]
    readings = {}
    for step, values in zip(graph.steps, counted, strict=False):
        readings[step.node] = Reading(**values)
        if readings[step.node].is_async < 0:
            readings[step.node] = _without_model(readings[step.node], step, graph)
    for step, inside in zip(_makers(graph), counted[len(graph.steps) :], strict=True):
        readings[step.node] = replace(
            readings[step.node],
            inner_wall_ns=inside["wall_ns"],
            inner_cpu_ns=inside["cpu_ns"],
        )
    elements = readings[graph.steps[-1].node].elements
    if elements < FEWEST_ELEMENTS or last.time_ns <= first.time_ns:
        return None
    return StageRun(
        readings=readings,
        wall_ns=last.time_ns - first.time_ns,
        cpu_ns=last.cpu_ns - first.cpu_ns,
        others=last.activity.others_since(first.activity),
        elements=elements,
    )


def function_ns(reading: Reading) -> float:
    """Returns the time of a parallel stage's functions and of the datasets they made."""
    return reading.model_ns + reading.inner_wall_ns


def thread_tops(steps: dict[str, Step], readings: dict[str, Reading]) -> list[str]:
    """Returns the last stage of each thread of the pipeline."""
    last = list(steps)[-1]
    tops = [last]
    for node, step in steps.items():
        if readings[node].is_async == 1:
            tops += step.inputs
    return [top for top in tops if readings[top].is_async != 1]


def thread_steps(
    top: str, steps: dict[str, Step], readings: dict[str, Reading]
) -> list[str]:
    """Returns the stages that run in the thread that requests elements of `top`."""
    found, stack = [], [top]
    while stack:
        node = stack.pop()
        if readings[node].is_async == 1 or node in found:
            continue
        found.append(node)
        stack += steps[node].inputs
    return found
