"""What each step of a pipeline costs, from what its probes saw: the model's units.

A step that runs in the thread that asks for its elements has that thread's wall and CPU
time, without that of its inputs. Functions of a parallel step have what the books of
tf.data's model hold, and datasets that they make have a probe of their own. Functions run
in a pool whose CPU time no probe sees: it is what the process used beyond them.
"""

from __future__ import annotations

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages import thread_pool
from ipufeed.benchmark.stages.model import PipelineModel, StageCost, Unit
from ipufeed.benchmark.stages.probe_run import (
    FETCHING,
    StageRun,
    function_ns,
    thread_steps,
    thread_tops,
)
from ipufeed.benchmark.stages.shares import blame

# At this share of the CPUs a pipeline is bound by them: all threads are never busy to the
# last percent.
CPU_BOUND_SHARE = 0.9


def build_model(
    steps: list[Step],
    run: StageRun,
    usable_cpus: int,
    *,
    pool: int | None = None,
    own_threads: frozenset[str] = frozenset(),
) -> PipelineModel:
    """The model of a pipeline whose steps were probed.

    Args:
        steps: From the sources on.
        run: What the probes saw.
        usable_cpus: For this process.
        pool: Threads that functions run in. Default: one for each CPU.
        own_threads: Nodes of parallel steps whose workers need none of the pool's.
    """
    elements = run.elements
    busy = run.cpu_ns / run.wall_ns
    others = run.others or 0.0
    # What others leave; with more threads of ours the scheduler would give us half.
    cpus = min(usable_cpus, max(busy, usable_cpus - others, usable_cpus / 2))
    model = PipelineModel(
        period=run.wall_ns / 1e9 / elements,
        cpus=cpus,
        cpu_bound=busy + others >= CPU_BOUND_SHARE * usable_cpus
        and busy >= CPU_BOUND_SHARE * cpus,
    )
    model.pool = usable_cpus if pool is None else pool
    model.idle = max(0.0, usable_cpus - busy - others)
    by_node = {step.node: step for step in steps}
    model.costs = {step.node: StageCost() for step in steps}
    find_units(model, by_node, run, own_threads)
    find_pool(model, by_node, run, own_threads)
    blame(model, by_node, run)
    return model


def find_units(
    model: PipelineModel,
    steps: dict[str, Step],
    run: StageRun,
    own_threads: frozenset[str],
) -> None:
    """Fills in seconds, the CPU seconds that probes saw, and the units."""
    readings, per = run.readings, 1e9 * run.elements
    for node, step in steps.items():
        reading, cost = readings[node], model.costs[node]
        if reading.is_async == 1:
            cost.seconds = function_ns(reading) / per
            cost.cpu_seconds = reading.inner_cpu_ns / per
            # No more than the pool has, unless more were seen at work.
            most = max(model.pool, cost.seconds / model.period)
            if node in own_threads:
                most = reading.parallelism
            workers = float(max(1.0, min(reading.parallelism, most)))
            cost.period = cost.seconds / workers
            if reading.parallelism > 0:
                model.units.append(
                    Unit(
                        {node: cost.seconds},
                        workers,
                        True,
                        calls=float(reading.parallelism),
                        own_threads=node in own_threads,
                    )
                )
            continue
        cost.seconds = (
            own(reading.wall_ns, [readings[i].wall_ns for i in step.inputs]) / per
        )
        cost.cpu_seconds = (
            own(reading.cpu_ns, [readings[i].cpu_ns for i in step.inputs]) / per
        )
        cost.period = cost.seconds
    for node, step in steps.items():
        model.below[node] = [
            each for made in step.inputs for each in thread_steps(made, steps, readings)
        ]
        if step.op in FETCHING or step.op == "MapDataset":
            model.fetching.add(node)
    for unit in model.units:
        (node,) = unit.steps
        if steps[node].op in FETCHING:
            unit.fetched = model.fetched_by(node)
    for top in thread_tops(steps, readings):
        nodes = thread_steps(top, steps, readings)
        if nodes:
            model.units.append(Unit({n: model.costs[n].seconds for n in nodes}))


def find_pool(
    model: PipelineModel,
    steps: dict[str, Step],
    run: StageRun,
    own_threads: frozenset[str],
) -> None:
    """Fills in what the functions took of the pool, and adds its CPU seconds."""
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
    thread_pool.settle(model, booked, outside)
    weight = sum(model.functions.values())
    if weight <= 0 or unseen <= 0:
        return
    for node, seconds in model.functions.items():
        model.costs[node].cpu_seconds += min(seconds, unseen * seconds / weight)


def own(total: int, inputs: list[int]) -> int:
    """A step's part of what it and its inputs took."""
    return max(0, total - sum(inputs))
