"""Which stages make a pipeline's period: the `share` of each stage.

It is derived from which threads wait, not from the model's times: starting with the last
thread, a thread that waits for a station passes its fraction of the time on to it. A stage
overlapped by a slower one gets 0. Where all stations wait for CPUs, or for threads of the
pool, the fractions are those of the time that each stage uses.
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

# A thread that waits for less than the first fraction of its time only waits for
# hand-overs; one that waits for more than the second is not the bottleneck. Between the
# two, the fraction that it passes on rises linearly.
HAND_OVER_FRACTION = 0.02
WAITING_FRACTION = 0.15
# Several calls begin to queue for their inputs if these take the first fraction of the
# time; if they take the second, the inputs alone are the bottleneck of the stage.
QUEUE_FRACTION, FETCH_BOUND_FRACTION = 0.85, 0.95


def set_shares(model: PipelineModel, steps: dict[str, Step], run: StageRun) -> None:
    """Sets `share` of all costs, and the model's critical station."""
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
        passed = _passed_on(waited / (total + waited))
        for node, ns in busy.items():
            if total > 0:
                model.costs[node].share += weight * (1 - passed) * ns / total
        for node, ns in waits.items():
            part = weight * passed * ns / waited if waited > 0 else 0.0
            own_part = part * _functions_fraction(node, steps, run, model.pool)
            model.costs[node].share += own_part
            heaviest[node] = heaviest.get(node, 0.0) + own_part
            stack += _split(steps[node].inputs, part - own_part, run)
    shared = model.pool_full or thread_pool.all_steps_fill_it(model)
    if not shared:
        _add_unseen(model, heaviest)
    if model.cpu_bound and heaviest and max(heaviest.values()) > 0.5:
        _share_by(model, in_pipeline, "cpu_seconds")
    elif shared or thread_pool.one_step_fills_it(model):
        _share_by(model, in_pipeline, "seconds")
    if any(cost.share > 0 for cost in model.costs.values()):
        worst = max(model.costs, key=lambda node: model.costs[node].share)
        model.critical = next(
            (station for station in model.stations if worst in station.steps), None
        )


def _passed_on(waiting: float) -> float:
    """Returns the fraction of a thread's time that goes to the stations that it waits for.

    All of it, even for short waits, once they are longer than hand-overs: a thread that
    waits would not make the pipeline faster by being faster.
    """
    low, high = HAND_OVER_FRACTION, WAITING_FRACTION
    return min(1.0, max(0.0, (waiting - low) / (high - low)))


def _split(
    inputs: tuple[str, ...], weight: float, run: StageRun
) -> list[tuple[str, float]]:
    """Distributes a fraction over a stage's inputs, in proportion to the waits for each."""
    total = sum(run.readings[each].wall_ns for each in inputs)
    if total <= 0:
        return []
    return [(each, weight * run.readings[each].wall_ns / total) for each in inputs]


def _functions_fraction(
    node: str, steps: dict[str, Step], run: StageRun, pool: int
) -> float:
    """Returns which part of the waits for a stage is due to its functions, not its inputs.

    The thread that fetches from its inputs is inside them nearly always if these are slow;
    if the workers are, it waits for one of them.
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
    # Each call fetches its element, then computes. The rest of a worker's time is waiting
    # inside functions, or with several workers for the next element to be handed over: the
    # more likely, the longer the inputs take.
    booked = function_ns(reading) / run.wall_ns
    rest = max(0.0, workers - inside - booked)
    computing = booked + rest * ((1.0 - inside) ** 2 if workers > 1 else 1.0)
    fraction = computing / max(computing + inside, 1e-9)
    if workers == 1:
        return fraction
    queueing = (inside - QUEUE_FRACTION) / (FETCH_BOUND_FRACTION - QUEUE_FRACTION)
    return fraction * (1.0 - min(1.0, max(0.0, queueing)))


def _add_unseen(model: PipelineModel, heaviest: dict[str, float]) -> None:
    """Raises the cost of a parallel bottleneck to the time that it must take.

    tf.data's model accounts for the time of TensorFlow's kernels; a function that waits
    elsewhere (another service, another iterator) takes longer than its kernels.
    """
    for node, share in heaviest.items():
        if share < 0.5:
            continue
        cost = model.costs[node]
        for station in model.stations:
            if station.functions and node in station.steps:
                period = 0.9 * model.period * station.workers - sum(
                    station.fetched.values()
                )
                seconds = max(station.steps[node], period)
                station.steps[node] = cost.seconds = seconds
                cost.period = seconds / station.workers


def _share_by(model: PipelineModel, weight: float, what: str) -> None:
    """Sets the fractions in proportion to the CPU time or the time of each stage."""
    total = sum(getattr(cost, what) for cost in model.costs.values())
    if total <= 0:
        return
    for cost in model.costs.values():
        cost.share = weight * getattr(cost, what) / total
