"""The rule for functions that wait while CPUs are idle: more concurrent calls.

Functions that wait (for a disk, a service, a lock) want more workers than there are CPUs.
Two things limit that number: the user's `num_parallel_calls`, and the pool that all
functions of a pipeline run in, which has one thread for each CPU unless
`options.threading.private_threadpool_size` sets another number. AUTOTUNE uses at most the
pool. An interleave has threads of its own in addition.
"""

from __future__ import annotations

from functools import partial

from ipufeed.benchmark.advice.advice import Advice, Case
from ipufeed.benchmark.graph import edits
from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages.explain import Stage

PARALLEL = ("ParallelMapDatasetV2", "MapAndBatchDataset")
INTERLEAVE = "ParallelInterleaveDatasetV4"
# Proposed multiples of the number of workers, and the most workers.
TIMES = (2, 4)
MOST_WORKERS = 64
# Workers that are busy for this fraction of their time are the limit.
BUSY_FRACTION = 0.8
# Half of the workers for this fraction of the gain is the better edit.
GOOD_ENOUGH = 0.9


def more_workers(case: Case) -> list[Advice]:
    """Advises more calls of a stage, or a larger pool where stages wait for its threads."""
    model = case.explanation.model
    if model.cpu_bound:
        return []
    found, pools = [], []
    for stage in case.important():
        step = case.step(stage)
        # More workers do not help functions that compute: they need CPUs, or the GIL.
        if case.computes(stage):
            continue
        if model.pool_full and stage.node in model.functions:
            pools.append(_larger_pool(case, stage, step))
        elif stage.parallelism and step.op in (*PARALLEL, INTERLEAVE):
            found.append(_more_calls(case, stage, step))
    # There is one pool: the advice names the first of the stages that use it.
    return [advice for advice in (*pools[:1], *found) if advice]


def _more_calls(case: Case, stage: Stage, step: Step) -> Advice | None:
    """Returns advice on a `num_parallel_calls` of the user's that is too small."""
    calls, model = stage.parallelism or 1, case.explanation.model
    working = stage.seconds_per_element / calls / model.period
    if stage.autotuned or calls < 2 or working < BUSY_FRACTION:
        return None
    most = float(MOST_WORKERS)
    if step.op == INTERLEAVE:
        most = case.elements_of_source(step.inputs) or most
    if stage.node in model.functions:
        most = min(most, model.pool)
    gains = {}
    for times in TIMES:
        count = int(min(calls * times, most, MOST_WORKERS))
        if count > calls:
            gains[count] = model.predict({}, {stage.node: float(count)})
    if not gains or case.gain(gains[count := _enough(gains)]) is None:
        return None
    text = (
        f"raise {_change(step, calls, count)} in {_kind_of(step)} `{stage.name}`: all "
        f"{calls} workers are busy, and they wait more than they compute"
    )
    edit = _edit_of(step, count)
    return case.advise("more_calls", stage.node, text, gains[count], edit)


def _larger_pool(case: Case, stage: Stage, step: Step) -> Advice | None:
    """Returns advice on calls that wait for a thread of the pool, and then in it."""
    model = case.explanation.model
    calls = float(stage.parallelism or 1)
    fixed, higher = {}, {}
    for times in TIMES:
        threads = min(model.pool * times, MOST_WORKERS)
        if threads > model.pool:
            wanted = {stage.node: max(calls, float(threads))}
            fixed[threads] = model.predict_pool(threads, {})
            higher[threads] = model.predict_pool(threads, wanted)
    if not higher:
        return None
    threads = _enough(higher)
    # AUTOTUNE raises the number of calls by itself.
    raise_calls = not stage.autotuned and threads > calls
    raise_calls = raise_calls and fixed[threads] < GOOD_ENOUGH * higher[threads]
    gain = (higher if raise_calls or stage.autotuned else fixed)[threads]
    if case.gain(gain) is None:
        return None
    change = f"options.threading.private_threadpool_size = {threads}"
    if raise_calls:
        change += f", and raise {_change(step, int(calls), threads)}"
    text = (
        f"set {change}: all {model.pool} threads for functions are taken, most by "
        f"{_kind_of(step)} `{stage.name}`, which waits more than it computes"
    )
    edit = _edit_of(step, threads) if raise_calls else None
    return case.advise("small_pool", stage.node, text, gain, edit, threads)


def _enough(gains: dict[int, float]) -> int:
    """Returns the smallest number whose gain is nearly the largest."""
    best = max(gains.values())
    return min(n for n, gain in gains.items() if gain >= GOOD_ENOUGH * best)


def _kind_of(step: Step) -> str:
    return "interleave" if step.op == INTERLEAVE else "map"


def _change(step: Step, calls: int, count: int) -> str:
    change = f"num_parallel_calls from {calls} to {count}"
    if step.op != INTERLEAVE:
        return change
    return f"{change} (and cycle_length to at least that)"


def _edit_of(step: Step, count: int) -> partial[None]:
    if step.op == INTERLEAVE:
        return partial(edits.interleave_calls, calls=count)
    return partial(edits.map_calls, calls=count)
