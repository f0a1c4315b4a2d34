"""Which stages make a pipeline's period: the `share` of each stage.

It is read from which units wait, not from the model's times: from the last thread down,
a unit that waits for another passes the blame to it. A step hidden behind a slower one gets
none. Where all wait for CPUs, or for threads of the pool, the shares are those of what
each step uses.
"""

from __future__ import annotations

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages import thread_pool
from ipufeed.benchmark.stages.model import PipelineModel
from ipufeed.benchmark.stages.probe_run import (
    FETCHING,
    StageRun,
    function_ns,
    thread_steps,
)

# A thread that waits for less of its time than the first is handed its elements; for more
# than the second, it is not what holds the pipeline up. In between the two are even.
HAND_OVER_SHARE = 0.02
WAITING_SHARE = 0.15
# From the first share of the time inside its inputs on, several calls begin to queue for
# them; from the second on, the inputs alone hold a step up.
QUEUE_SHARE, FETCH_BOUND_SHARE = 0.85, 0.95


def blame(model: PipelineModel, steps: dict[str, Step], run: StageRun) -> None:
    """Fills in the shares: from the last thread down, a unit that waits passes it on."""
    last = list(steps)[-1]
    in_pipeline = min(1.0, run.readings[last].wall_ns / run.wall_ns)
    heaviest: dict[str, float] = {}
    stack = [(last, in_pipeline)]
    while stack:
        top, weight = stack.pop()
        if weight <= 1e-3:
            continue
        nodes = thread_steps(top, steps, run.readings)
        waits = {
            each: run.readings[each].wall_ns
            for node in nodes
            for each in steps[node].inputs
            if run.readings[each].is_async == 1
        }
        if run.readings[top].is_async == 1:
            waits[top] = run.readings[top].wall_ns
        busy = {node: model.costs[node].seconds * 1e9 * run.elements for node in nodes}
        total, waited = sum(busy.values()), sum(waits.values())
        if total + waited <= 0:
            continue
        passed = passed_on(waited / (total + waited))
        for node, ns in busy.items():
            if total > 0:
                model.costs[node].share += weight * (1 - passed) * ns / total
        for node, ns in waits.items():
            part = weight * passed * ns / waited if waited > 0 else 0.0
            own_part = part * functions_share(node, steps, run, model.pool)
            model.costs[node].share += own_part
            heaviest[node] = heaviest.get(node, 0.0) + own_part
            stack += split(steps[node].inputs, part - own_part, run)
    shared = model.pool_full or thread_pool.fills_it_together(model)
    if not shared:
        fill_unseen(model, heaviest, run)
    if model.cpu_bound and heaviest and max(heaviest.values()) > 0.5:
        blame_by(model, in_pipeline, "cpu_seconds")
    elif shared or thread_pool.one_step_fills_it(model):
        blame_by(model, in_pipeline, "seconds")
    if any(cost.share > 0 for cost in model.costs.values()):
        worst = max(model.costs, key=lambda node: model.costs[node].share)
        model.critical = next(
            (unit for unit in model.units if worst in unit.steps), None
        )


def passed_on(waiting: float) -> float:
    """The part of a thread's blame that goes to those that it waits for.

    All of it, however short the waits, once they are more than hand-overs: a unit that
    waits would not make the pipeline faster by being faster.
    """
    low, high = HAND_OVER_SHARE, WAITING_SHARE
    return min(1.0, max(0.0, (waiting - low) / (high - low)))


def split(
    inputs: tuple[str, ...], weight: float, run: StageRun
) -> list[tuple[str, float]]:
    """The blame of a step's inputs, by how long each was waited for."""
    total = sum(run.readings[each].wall_ns for each in inputs)
    if total <= 0:
        return []
    return [(each, weight * run.readings[each].wall_ns / total) for each in inputs]


def functions_share(
    node: str, steps: dict[str, Step], run: StageRun, pool: int
) -> float:
    """Which part of what is waited for at a step its functions are, and not its inputs.

    The thread that asks its inputs is inside them nearly always when they are slow; when
    the workers are, it waits for one of them.
    """
    reading = run.readings[node]
    inputs = sum(run.readings[each].wall_ns for each in steps[node].inputs)
    inside = min(1.0, inputs / run.wall_ns)
    if not steps[node].inputs:
        return 1.0
    if reading.parallelism <= 0:  # a prefetch: it has no work of its own
        return 0.0
    workers = min(reading.parallelism, pool)
    working = function_ns(reading) / workers / run.wall_ns
    if steps[node].op not in FETCHING or reading.parallelism > pool:
        return float(max(min(1.0, working), 1.0 - inside) >= inside)
    # Calls alternate: in one call an element is fetched, and computed.
    # What is not accounted for of a worker's time is waiting inside functions. Of several
    # workers it may also be that for the next element to be handed over: the more so, the
    # longer those are asked for.
    booked = function_ns(reading) / run.wall_ns
    untold = max(0.0, workers - inside - booked)
    computing = booked + untold * ((1.0 - inside) ** 2 if workers > 1 else 1.0)
    share = computing / max(computing + inside, 1e-9)
    if workers == 1:
        return share
    queueing = (inside - QUEUE_SHARE) / (FETCH_BOUND_SHARE - QUEUE_SHARE)
    return share * (1.0 - min(1.0, max(0.0, queueing)))


def fill_unseen(
    model: PipelineModel, heaviest: dict[str, float], run: StageRun
) -> None:
    """Gives a pool that holds the pipeline up the time that it must have taken.

    The model books the time of TensorFlow's kernels; a function that waits elsewhere
    (another service, another iterator) takes longer than its kernels.
    """
    for node, share in heaviest.items():
        if share < 0.5:
            continue
        cost = model.costs[node]
        for unit in model.units:
            if unit.functions and node in unit.steps:
                period = 0.9 * model.period * unit.workers - sum(unit.fetched.values())
                seconds = max(unit.steps[node], period)
                unit.steps[node] = cost.seconds = seconds
                cost.period = seconds / unit.workers


def blame_by(model: PipelineModel, weight: float, what: str) -> None:
    """Where all wait for CPUs, or for threads, the shares are those of what is used."""
    total = sum(getattr(cost, what) for cost in model.costs.values())
    if total <= 0:
        return
    for cost in model.costs.values():
        cost.share = weight * getattr(cost, what) / total
