"""Runs a pipeline with a probe behind each step, and reads the probes.

Chosen after measuring the ways there are. `tf.data.experimental.get_model_proto` alone
misses what happens between the books: a wait inside a step (a sleep, a read from afar)
is not in them, the books of a dataset that a `repeat` starts again are thrown away, and
with AUTOTUNE off there are none. So a short second run has probes of ours between the
steps of the graph as tf.data rewrote it (fused and injected steps included). They give
wall and CPU time of each step by difference, and read the model for what only it knows:
the time of functions in a pool, AUTOTUNE's choices, buffered bytes. What the datasets
inside a parallel interleave take is measured by a probe in its function. With AUTOTUNE off
the model is ours and only keeps books. The run that is reported has no probe in it, so
that attribution costs it nothing.
"""

from __future__ import annotations

import copy
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
from ipufeed.tf_types import Dataset

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
# Steps that read several datasets of their function's at a time.
INTERLEAVES = frozenset(
    {
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "LegacyParallelInterleaveDatasetV2",
    }
)
# Steps that have threads of their own; only used where there is no model.
_THREADED = ("Parallel", "LegacyParallel", "MapAndBatch", "Prefetch")
# The part of the run that is for AUTOTUNE and the buffers to settle.
WARM_UP_SHARE = 0.4
# Fewer root elements than this in the counted part are too few for a share.
FEWEST_ELEMENTS = 3


# Steps whose calls fetch their elements themselves.
FETCHING = frozenset(
    {"ParallelMapDatasetV2", "MapAndBatchDataset", "ParallelBatchDataset"}
)


@dataclass(frozen=True)
class Reading:
    """A step over the counted part of the run; times in ns, see stage_probe.h.

    Attributes:
        inner_wall_ns: In the datasets that its function made, all its threads together.
        inner_cpu_ns: Of those threads meanwhile.
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
    """What the probes saw.

    Attributes:
        readings: By node.
        wall_ns: Length of the counted part.
        cpu_ns: Of the whole process meanwhile.
        others: CPUs that other processes kept busy meanwhile, or None.
        elements: That the last step gave.
    """

    readings: dict[str, Reading]
    wall_ns: int
    cpu_ns: int
    others: float | None
    elements: int


class _EnoughError(Exception):
    """Ends the run from within its progress callback."""


@dataclass
class _Moment:
    """All probes at one time."""

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
    """Runs the pipeline for about `seconds` and returns what its probes counted.

    A finite dataset is gone through as often as that takes.

    Args:
        graph: Rewritten, as training runs it.
        seconds: After the first element, the part for settling included.
        copy_elements: Whether elements are copied as in the run that is explained.
        limit_s: Gives up when the first element is not there by then. Default:
            `seconds`.

    Returns:
        None where there were too few elements, or it failed on the way.

    Raises:
        tf.errors.OpError: The pipeline with probes cannot be started.
        KeyboardInterrupt: Ctrl-C.
    """
    entry = _native.entry()
    slots = len(graph.steps) + len(makers(graph))
    group = entry.ipufeed_probes_new(slots)
    try:
        edited, root = insert_probes(graph, group)
        dataset = graph.as_it_is(edited, root)
        moments: list[_Moment] = []
        follow = _follower(
            lambda: take_moment(group, slots),
            moments,
            seconds,
            seconds if limit_s is None else limit_s,
        )
        raw, interruption = run_measurement(
            dataset,
            {
                "seconds_ns": round(2 * seconds * 1e9),
                "passes": MOST,
                "copy": copy_elements,
                **books(dataset),
            },
            follow,
        )
        if interruption is not None and not isinstance(interruption, _EnoughError):
            raise interruption
        if raw is not None and raw.failure is not None:
            return None
    finally:
        entry.ipufeed_probes_free(group)
    if len(moments) < 2:
        return None
    return between(moments[0], moments[-1], graph)


def books(dataset: Dataset) -> dict[str, bool]:
    """The op's attributes for a run whose model keeps books.

    Without AUTOTUNE, tf.data's last step takes the model away. The graph is rewritten
    already; that step is then left out, unless it is what gives the pipeline threads of
    its own.
    """
    options = dataset._options_attr
    threads = (
        options.threading.private_threadpool_size,
        options.threading.max_intra_op_parallelism,
    )
    needed = options.autotune.enabled is not False or any(threads)
    return {"modelled": True, "finalize": needed}


def _follower(
    look: Callable[[], _Moment],
    moments: list[_Moment],
    seconds: float,
    limit_s: float,
) -> Callable[[Progress], None]:
    """Keeps the first moment after the warm-up and the last one before the end."""
    asked_ns = time.monotonic_ns()

    def follow(progress: Progress) -> None:
        now = time.monotonic_ns()
        if progress.first_ns == 0:
            if now - asked_ns > limit_s * 1e9:
                raise _EnoughError
            return
        after = (now - progress.first_ns) / 1e9
        moment = look()  # each time: datasets inside a step come and go
        if after < seconds * WARM_UP_SHARE:
            return
        del moments[1:]
        moments.append(moment)
        if after >= seconds:
            raise _EnoughError

    return follow


def insert_probes(graph: PipelineGraph, group: int) -> tuple[Any, str]:
    """A copy of the graph with a probe behind each step, and its last node.

    The slots of the group: one for each step, and then one for the datasets that each
    of `makers` makes.
    """
    edited = copy.deepcopy(graph.graph)
    slots = {step.node: slot for slot, step in enumerate(graph.steps)}
    for node in edited.node:
        for number, text in enumerate(node.input):
            if node_name(text) in slots and not text.startswith("^"):
                node.input[number] = probe_name(slots[node_name(text)])
    for name, slot in slots.items():
        set_probe(edited.node.add(), slot, group, name)
    for number, step in enumerate(makers(graph)):
        probe_inside(edited, step, len(slots) + number, group)
    last = graph.steps[-1].node
    return edited, probe_name(slots[last])


def makers(graph: PipelineGraph) -> list[Step]:
    """Steps whose functions make datasets, which threads of the step's own read."""
    return [step for step in graph.steps if step.op in INTERLEAVES]


def probe_inside(edited: Any, step: Step, slot: int, group: int) -> None:
    """Puts a probe behind the dataset that a step's function returns.

    In a copy of the function under another name: other steps may call it, too, and the
    one that runs elsewhere stays as it is.
    """
    library = {each.signature.name: each for each in edited.library.function}
    function = edited.library.function.add()
    function.CopyFrom(library[step.functions["f"]])
    function.signature.name += f"_{probe_name(slot)}"
    (output,) = function.signature.output_arg
    set_probe(function.node_def.add(), slot, group, function.ret[output.name])
    function.ret[output.name] = f"{probe_name(slot)}:handle:0"
    node = find_node(edited, step.node)
    node.attr["f"].func.name = function.signature.name


def set_probe(node: Any, slot: int, group: int, behind: str) -> None:
    """Makes a new node of a graph or a function a probe."""
    node.name, node.op = probe_name(slot), "IpufeedProbeDataset"
    node.input.append(behind)
    node.attr["group"].i = group
    node.attr["slot"].i = slot


def probe_name(slot: int) -> str:
    """A name that no other node has."""
    return f"ipufeed_probe_{slot}"


def without_model(reading: Reading, step: Step, graph: PipelineGraph) -> Reading:
    """A reading from the op alone: threads of its own, and how many."""
    threaded = step.kind.startswith(_THREADED)
    calls = constant_input(graph.graph, step.node) if threaded else None
    if calls is not None and calls <= 0:
        calls = int(_native.entry().ipufeed_usable_cpus())
    if step.kind == "Prefetch" or calls is None:
        calls = -1
    return replace(reading, is_async=int(threaded), parallelism=calls)


def constant_input(graph: Any, node: str) -> int | None:
    """The last of a node's inputs that is a constant number, or None."""
    import tensorflow as tf

    nodes = {each.name: each for each in graph.node}
    for text in reversed(nodes[node].input):
        source = nodes.get(node_name(text))
        if source is None or source.op != "Const":
            continue
        value = tf.make_ndarray(source.attr["value"].tensor)
        if value.dtype.kind == "i" and value.ndim == 0:
            return int(value)
    return None


def take_moment(group: int, slots: int) -> _Moment:
    """Reads all probes."""
    entry = _native.entry()
    values = (ctypes.c_int64 * len(PROBE_FIELDS))()
    table = []
    for slot in range(slots):
        entry.ipufeed_probe_read(group, slot, values)
        table.append(dict(zip(PROBE_FIELDS, values, strict=True)))
    return _Moment(
        time.monotonic_ns(), time.process_time_ns(), machine.Activity.now(), table
    )


def between(first: _Moment, last: _Moment, graph: PipelineGraph) -> StageRun | None:
    """What happened from one moment to the other; None for too little."""
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
            readings[step.node] = without_model(readings[step.node], step, graph)
    for step, inside in zip(makers(graph), counted[len(graph.steps) :], strict=True):
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
    """What a parallel step's functions took, those of the datasets they made included."""
    return reading.model_ns + reading.inner_wall_ns


def thread_tops(steps: dict[str, Step], readings: dict[str, Reading]) -> list[str]:
    """The last step of each thread's part of the pipeline."""
    last = list(steps)[-1]
    tops = [last]
    for node, step in steps.items():
        if readings[node].is_async == 1:
            tops += step.inputs
    return [top for top in tops if readings[top].is_async != 1]


def thread_steps(
    top: str, steps: dict[str, Step], readings: dict[str, Reading]
) -> list[str]:
    """The steps that run in the thread that asks `top` for elements."""
    found, stack = [], [top]
    while stack:
        node = stack.pop()
        if readings[node].is_async == 1 or node in found:
            continue
        found.append(node)
        stack += steps[node].inputs
    return found
