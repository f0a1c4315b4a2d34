"""The rule for functions that wait while CPUs are idle: more of them at a time.

Functions that wait (for a disk, a service, a lock) want more workers than there are CPUs.
Two things hold their number down: the `num_parallel_calls` that was written, and the pool
that all functions of a pipeline run in, which has one thread for each CPU unless
`options.threading.private_threadpool_size` says otherwise. AUTOTUNE uses no more than the
pool has. An interleave has threads of its own in addition.
"""

from __future__ import annotations

from functools import partial

from ipufeed.benchmark.advice.advice import Advice, Case
from ipufeed.benchmark.graph import edits
from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages.explain import Stage

PARALLEL = ("ParallelMapDatasetV2", "MapAndBatchDataset")
INTERLEAVE = "ParallelInterleaveDatasetV4"
# Multiples of the number of workers that are proposed, and the most workers.
TIMES = (2, 4)
MOST_WORKERS = 64
# Workers that work for this share of their time are all at work.
AT_WORK_SHARE = 0.8
# Half of the workers for a little less is the better edit.
GOOD_ENOUGH = 0.9


def more_workers(case: Case) -> list[Advice]:
    """A parallel step with too few calls, or steps that want threads of a full pool."""
    model = case.explanation.model
    if model.cpu_bound:
        return []
    found, pools = [], []
    for stage in case.important():
        step = case.step(stage)
        # What computes wants CPUs; in Python, even the one interpreter.
        if case.computes(stage):
            continue
        if model.pool_full and stage.node in model.functions:
            pools.append(larger_pool(case, stage, step))
        elif stage.parallelism and step.op in (*PARALLEL, INTERLEAVE):
            found.append(more_calls(case, stage, step))
    # The pool is one: what most of its time goes to is named.
    return [advice for advice in (*pools[:1], *found) if advice]


def more_calls(case: Case, stage: Stage, step: Step) -> Advice | None:
    """`num_parallel_calls` that was written, and is too small."""
    calls, model = stage.parallelism or 1, case.explanation.model
    working = stage.seconds_per_element / calls / model.period
    if stage.autotuned or calls < 2 or working < AT_WORK_SHARE:
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
    if not gains or case.gain(gains[count := enough(gains)]) is None:
        return None
    return Advice(
        "more_calls",
        stage.name,
        stage.node,
        f"raise {raised(step, calls, count)} in {kind_of(step)} `{stage.name}`: all "
        f"{calls} workers are busy, and they wait more than they compute",
        gains[count],
        edit_of(step, count),
    )


def larger_pool(case: Case, stage: Stage, step: Step) -> Advice | None:
    """Calls that wait for one of the pool's threads, and in it for something else."""
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
    threads = enough(higher)
    # AUTOTUNE takes what the pool has.
    raise_calls = not stage.autotuned and threads > calls
    raise_calls = raise_calls and fixed[threads] < GOOD_ENOUGH * higher[threads]
    gain = (higher if raise_calls or stage.autotuned else fixed)[threads]
    if case.gain(gain) is None:
        return None
    change = f"options.threading.private_threadpool_size = {threads}"
    if raise_calls:
        change += f", and raise {raised(step, int(calls), threads)}"
    return Advice(
        "small_pool",
        stage.name,
        stage.node,
        f"set {change}: all {model.pool} threads for functions are taken, most by "
        f"{kind_of(step)} `{stage.name}`, which waits more than it computes",
        gain,
        edit_of(step, threads) if raise_calls else None,
        pool=threads,
    )


def enough(gains: dict[int, float]) -> int:
    """The smallest number whose gain is nearly the largest."""
    best = max(gains.values())
    return min(n for n, gain in gains.items() if gain >= GOOD_ENOUGH * best)


def kind_of(step: Step) -> str:
    """As its author would call it."""
    return "interleave" if step.op == INTERLEAVE else "map"


def raised(step: Step, calls: int, count: int) -> str:
    """`num_parallel_calls from 2 to 8`."""
    change = f"num_parallel_calls from {calls} to {count}"
    if step.op != INTERLEAVE:
        return change
    return f"{change} (and cycle_length to at least that)"


def edit_of(step: Step, count: int) -> partial[None]:
    """The edit of the graph."""
    if step.op == INTERLEAVE:
        return partial(edits.interleave_calls, calls=count)
    return partial(edits.map_calls, calls=count)
