"""Runs a pipeline with a probe behind each step, and reads the probes.

Chosen after measuring the ways there are. `tf.data.experimental.get_model_proto` alone
misses what happens between the books: a wait inside a step (a sleep, a read from afar)
is not in them, the books of a dataset that a `repeat` starts again are thrown away, and
with AUTOTUNE off there are none. So a short second run has probes of ours between the
steps of the graph as tf.data rewrote it (fused and injected steps included). They give
wall and CPU time of each step by difference, and read the model for what only it knows:
the time of functions in a pool, AUTOTUNE's choices, buffered bytes. With AUTOTUNE off
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
from ipufeed.benchmark import machine
from ipufeed.benchmark.pipeline_graph import PipelineGraph, Step, node_name
from ipufeed.benchmark.run import Progress, run_measurement
from ipufeed.benchmark.settings import MOST

# As in ProbeReading of ipufeed/cc/stage_probe.h.
PROBE_FIELDS = (
    "elements",
    "wall_ns",
    "cpu_ns",
    "model_ns",
    "inner_ns",
    "inner_elements",
    "is_async",
    "parallelism",
    "buffer_elements",
    "buffered_bytes",
    "tuned",
)
_SUMS = ("elements", "wall_ns", "cpu_ns", "model_ns", "inner_ns", "inner_elements")
# Steps that have threads of their own; asked for only where there is no model to tell.
_THREADED = ("Parallel", "LegacyParallel", "MapAndBatch", "Prefetch")
# The part of the run that is for AUTOTUNE and the buffers to settle.
WARM_UP_SHARE = 0.4
# Fewer root elements than this in the counted part are no basis for a share.
FEWEST_ELEMENTS = 3


@dataclass(frozen=True)
class Reading:
    """A step over the counted part of the run; times in ns, see stage_probe.h."""

    elements: int
    wall_ns: int
    cpu_ns: int
    model_ns: int
    inner_ns: int
    inner_elements: int
    is_async: int
    parallelism: int
    buffer_elements: int
    buffered_bytes: int
    tuned: int


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
        None where there were too few elements to tell, or it failed on the way.

    Raises:
        tf.errors.OpError: The pipeline with probes cannot be started.
        KeyboardInterrupt: Ctrl-C.
    """
    entry = _native.entry()
    nodes = [step.node for step in graph.steps]
    group = entry.ipufeed_probes_new(len(nodes))
    try:
        edited, root = insert_probes(graph, group)
        dataset = graph.as_it_is(edited, root)
        moments: list[_Moment] = []
        follow = _follower(
            lambda: take_moment(group, len(nodes)),
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


def books(dataset: Any) -> dict[str, bool]:
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
    """A copy of the graph with a probe behind each step, and its last node."""
    edited = copy.deepcopy(graph.graph)
    slots = {step.node: slot for slot, step in enumerate(graph.steps)}
    for node in edited.node:
        for number, text in enumerate(node.input):
            if node_name(text) in slots and not text.startswith("^"):
                node.input[number] = probe_name(slots[node_name(text)])
    for name, slot in slots.items():
        probe = edited.node.add(name=probe_name(slot), op="IpufeedProbeDataset")
        probe.input.append(name)
        probe.attr["group"].i = group
        probe.attr["slot"].i = slot
    last = graph.steps[-1].node
    return edited, probe_name(slots[last])


def probe_name(slot: int) -> str:
    """A name that no other node has."""
    return f"ipufeed_probe_{slot}"


def without_model(reading: Reading, step: Step, graph: PipelineGraph) -> Reading:
    """A reading with what the op alone tells: threads of its own, and how many."""
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
    readings = {}
    for step, before, after in zip(graph.steps, first.values, last.values, strict=True):
        readings[step.node] = Reading(
            **{
                name: max(0, after[name] - before[name])
                if name in _SUMS
                else after[name]
                for name in PROBE_FIELDS
            }
        )
        if readings[step.node].is_async < 0:
            readings[step.node] = without_model(readings[step.node], step, graph)
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
