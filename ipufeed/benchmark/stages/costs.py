"""Builds the model of a pipeline from the readings of its probes.

The time of a stage without threads of its own is the wall and CPU time of the thread that
requests its elements, less that of its inputs. The functions of a parallel stage take the
time that tf.data's model accounts to them, and the datasets that they make have a probe of
their own. No probe sees the CPU time of functions, which run in a pool: it is the rest of
the process's CPU time.
"""

from __future__ import annotations

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages import thread_pool
from ipufeed.benchmark.stages.model import PipelineModel, StageCost, Station
from ipufeed.benchmark.stages.probe_run import (
    FETCHING,
    StageRun,
    function_ns,
    thread_steps,
    thread_tops,
)
from ipufeed.benchmark.stages.shares import set_shares

# Fraction of the CPUs in use from which a pipeline is CPU-bound: threads are never busy
# all of the time.
CPU_BOUND_FRACTION = 0.9


def build_model(
    steps: list[Step],
    run: StageRun,
    usable_cpus: int,
    *,
    pool: int | None = None,
    own_threads: frozenset[str] = frozenset(),
) -> PipelineModel:
    """Returns the model of a pipeline.

    Args:
        steps: In order, the sources first.
        run: The readings of its probes.
        usable_cpus: CPUs that this process may use.
        pool: Threads of the pool that functions run in. Default: one for each CPU.
        own_threads: Nodes of parallel stages whose workers do not use the pool.
    """
    elements = run.elements
    busy = run.cpu_ns / run.wall_ns
    others = run.others or 0.0
    # CPUs that other processes leave; the scheduler gives at least half to more threads.
    cpus = min(usable_cpus, max(busy, usable_cpus - others, usable_cpus / 2))
    model = PipelineModel(
        period=run.wall_ns / 1e9 / elements,
        cpus=cpus,
        cpu_bound=busy + others >= CPU_BOUND_FRACTION * usable_cpus
        and busy >= CPU_BOUND_FRACTION * cpus,
    )
    model.pool = usable_cpus if pool is None else pool
    model.idle = max(0.0, usable_cpus - busy - others)
    by_node = {step.node: step for step in steps}
    model.costs = {step.node: StageCost() for step in steps}
    _find_stations(model, by_node, run, own_threads)
    _find_pool(model, by_node, run, own_threads)
    set_shares(model, by_node, run)
    return model


def _find_stations(
    model: PipelineModel,
    steps: dict[str, Step],
    run: StageRun,
    own_threads: frozenset[str],
) -> None:
    """Sets the seconds, the CPU seconds that probes saw, and the stations."""
    readings, per = run.readings, 1e9 * run.elements
    for node, step in steps.items():
        reading, cost = readings[node], model.costs[node]
        if reading.is_async == 1:
            cost.seconds = function_ns(reading) / per
            cost.cpu_seconds = reading.inner_cpu_ns / per
            # At most the pool's threads, unless more were seen busy.
            most = max(model.pool, cost.seconds / model.period)
            if node in own_threads:
                most = reading.parallelism
            workers = float(max(1.0, min(reading.parallelism, most)))
            cost.period = cost.seconds / workers
            if reading.parallelism > 0:
                model.stations.append(
                    Station(
                        {node: cost.seconds},
                        workers,
                        True,
                        calls=float(reading.parallelism),
                        own_threads=node in own_threads,
                    )
                )
            continue
        cost.seconds = (
            _own(reading.wall_ns, [readings[i].wall_ns for i in step.inputs]) / per
        )
        cost.cpu_seconds = (
            _own(reading.cpu_ns, [readings[i].cpu_ns for i in step.inputs]) / per
        )
        cost.period = cost.seconds
    for node, step in steps.items():
        model.below[node] = [
            each for made in step.inputs for each in thread_steps(made, steps, readings)
        ]
        if step.op in FETCHING or step.op == "MapDataset":
            model.fetching.add(node)
    for station in model.stations:
        (node,) = station.steps
        if steps[node].op in FETCHING:
            station.fetched = model.fetched_by(node)
    for top in thread_tops(steps, readings):
        nodes = thread_steps(top, steps, readings)
        if nodes:
            model.stations.append(Station({n: model.costs[n].seconds for n in nodes}))


def _find_pool(
    model: PipelineModel,
    steps: dict[str, Step],
    run: StageRun,
    own_threads: frozenset[str],
) -> None:
    """Sets the time of functions in the pool, and adds their CPU seconds to the costs."""
    unseen = run.cpu_ns / 1e9 / run.elements - sum(
        cost.cpu_seconds for cost in model.costs.values()
    )
    model.functions = {
        node: model.costs[node].seconds
        for node, step in steps.items()
        if node not in own_threads
        and (run.readings[node].is_async == 1 or step.functions)
    }
    per = 1e9 * run.elements
    booked = {
        node: reading.model_ns / per
        for node, reading in run.readings.items()
        if reading.is_async == 0 and reading.model_ns > 0
    }
    outside = {
        node
        for node, reading in run.readings.items()
        if reading.inner_wall_ns > 0 and node not in own_threads
    }
    thread_pool.remove_waits(model, booked, outside)
    weight = sum(model.functions.values())
    if weight <= 0 or unseen <= 0:
        return
    for node, seconds in model.functions.items():
        model.costs[node].cpu_seconds += min(seconds, unseen * seconds / weight)


def _own(total: int, inputs: list[int]) -> int:
    return max(0, total - sum(inputs))
