"""What a pipeline's rate follows from: a model with a unit for each thing that can wait.

    source -> map -> [ prefetch ] -> batch -> [ parallel map ] -> feeder
    |____ unit: a thread ____|        |_ unit: thread _| |_ unit: p workers

A step without threads of its own runs in the thread that asks for its elements; all such
steps up to the next buffer make one unit, and their times add up. The functions of a
parallel step are a unit of their own, p at a time. Units overlap, so that a pipeline's
period (the time from one element to the next) is that of its slowest unit, no less than
all their CPU time divided by the CPUs there are, and no less than all functions' time
divided by the threads of the pool that they run in.

A parallel map overlaps less than its name says: a call begins by fetching its element, so
that p calls take turns in fetching and computing. One call at a time (as in a serial map
that tf.data has fused with the batch behind it) overlaps with nothing before it.

Who is to blame is read from who waits, not from the model's times: from the last thread
down, a unit that waits for another passes the blame to it. A step hidden behind a slower
one gets none.

Source: the bottleneck law of operational analysis (Denning and Buzen, "The Operational
Analysis of Queueing Network Models", ACM Computing Surveys 10 (3), 1978).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ipufeed.benchmark.pipeline_graph import Step
from ipufeed.benchmark.stage_run import Reading, StageRun

# At this share of the CPUs a pipeline is bound by them: all threads are never busy to the
# last percent.
CPU_BOUND_SHARE = 0.9
# A thread that waits for less of its time than the first is handed its elements; for more
# than the second, it is not what holds the pipeline up. In between the two are even.
HAND_OVER_SHARE = 0.02
WAITING_SHARE = 0.15
# A pool whose threads functions keep busy for this share of the time is full: those of
# one step, or all together.
FULL_POOL_SHARE = 0.6
ALL_IN_POOL_SHARE = 0.85
# Steps whose calls fetch their elements themselves.
FETCHING = frozenset(
    {"ParallelMapDatasetV2", "MapAndBatchDataset", "ParallelBatchDataset"}
)
# From the first share of the time inside its inputs on, several calls begin to queue for
# them; from the second on, the inputs alone hold a step up.
QUEUE_SHARE, FETCH_BOUND_SHARE = 0.85, 0.95


@dataclass
class Unit:
    """What runs one after another: a thread's steps, or a step's functions.

    Attributes:
        steps: Seconds per element of the pipeline, by node.
        workers: That share the work.
        functions: Whether it is the functions of a parallel step.
        fetched: What each call fetches before it computes, likewise.
        calls: At a time, fetching or computing; workers compute.
        own_threads: Whether the functions have threads beside the pool's.
    """

    steps: dict[str, float]
    workers: float = 1.0
    functions: bool = False
    fetched: dict[str, float] = field(default_factory=dict)
    calls: float = 1.0
    own_threads: bool = False

    def period(self, factors: Mapping[str, float]) -> float:
        """Seconds that an element of the pipeline takes it, with changed costs."""
        work = changed(self.steps, factors)
        if not self.fetched:
            return work / self.workers
        turn = work + changed(self.fetched, factors)
        return max(work / self.workers, turn / max(self.calls, self.workers))

    def heaviest(self, factors: Mapping[str, float]) -> str:
        """The step that takes most of it."""
        all_steps = {**self.fetched, **self.steps}
        return max(all_steps, key=lambda node: all_steps[node] * factors.get(node, 1.0))


def parts(unit: Unit, made: set[str], moved: set[str]) -> list[Unit]:
    """What is left of a unit when some steps get a thread, and others workers."""
    gone = made | moved
    if unit.functions:
        fetched = {n: c for n, c in unit.fetched.items() if n not in gone}
        return [replace(unit, fetched=fetched)]
    groups = (made & unit.steps.keys(), unit.steps.keys() - gone)
    return [
        replace(unit, steps={n: c for n, c in unit.steps.items() if n in group})
        for group in groups
        if group
    ]


def changed(costs: Mapping[str, float], factors: Mapping[str, float]) -> float:
    """The sum of costs, some of them multiplied."""
    return sum(cost * factors.get(node, 1.0) for node, cost in costs.items())


@dataclass
class StageCost:
    """A step's part of a pipeline, in seconds per element of the whole pipeline.

    Attributes:
        share: Of the wall time that matters, 0..1.
        seconds: Of the step itself, in all of its threads together.
        cpu_seconds: Likewise.
        period: Of the unit that the step is in, were the step alone in it.
    """

    share: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    period: float = 0.0


@dataclass
class PipelineModel:
    """The units of a pipeline, and what each step costs.

    Attributes:
        period: Seconds from one element to the next, as the run with probes had it.
        cpus: That the pipeline can have.
        cpu_bound: Whether it uses them up.
        pool: Threads that functions run in, of all steps together.
        critical: The unit that gets the most blame; None if the consumer holds it up.
        costs: By node.
        units: All of them.
        below: The steps that a step's thread runs before it, by node.
        fetching: Steps whose calls fetch their elements, or would if they were parallel.
        pooled: Seconds of functions in the pool, by node; empty if they take more than it
            has: some of it then is waiting for a thread.
        functions: The same, whatever they take.
        idle: CPUs that neither the pipeline nor anybody else used.
    """

    period: float
    cpus: float
    cpu_bound: bool
    pool: int = 1 << 30
    units: list[Unit] = field(default_factory=list)
    below: dict[str, list[str]] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)
    pooled: dict[str, float] = field(default_factory=dict)
    functions: dict[str, float] = field(default_factory=dict)
    idle: float = 0.0
    costs: dict[str, StageCost] = field(default_factory=dict)
    critical: Unit | None = None

    def predict(
        self, factors: Mapping[str, float], workers: Mapping[str, float] | None = None
    ) -> float:
        """How many times as fast the pipeline would be with changed steps.

        Args:
            factors: What to multiply a step's cost with, by node: 0.5 for twice as
                fast, 0 for free.
            workers: Workers for a step that becomes parallel, or gets more, by node.
        """
        return self.gain_to(self.model_period(factors, workers or {}))

    def predict_prefetch(self, node: str) -> float:
        """Likewise, with a buffer behind a step: what it is made of gets a thread."""
        made = {*self.below.get(node, []), node}
        units = []
        for unit in self.units:
            units += parts(unit, made, set())
        return self.gain_to(replace(self, units=units).model_period({}, {}))

    def predict_pool(self, threads: int, calls: Mapping[str, float]) -> float:
        """Likewise, with a pool of so many threads and other numbers of calls, by node.

        What serial functions have waited for a thread of a full pool, they no longer do.
        """
        took = self.in_pool()
        units = []
        for unit in self.units:
            new = replace(
                unit,
                steps={n: min(c, took.get(n, c)) for n, c in unit.steps.items()},
                fetched={n: min(c, took.get(n, c)) for n, c in unit.fetched.items()},
            )
            if unit.functions and not unit.own_threads:
                (node,) = unit.steps
                most = calls.get(node, max(unit.calls, unit.workers))
                new = replace(new, workers=min(most, float(threads)), calls=most)
            units.append(new)
        wider = replace(
            self, pool=threads, units=units, pooled=took if self.functions else {}
        )
        return self.gain_to(wider.model_period({}, {}))

    def in_pool(self) -> dict[str, float]:
        """Seconds in a thread of the pool, by node, without the waiting for one.

        Those of parallel steps are so by themselves. A serial step's are seen from
        outside: all together they had what the parallel ones have left.
        """
        parallel = self.parallel_functions()
        serial = self.functions.keys() - parallel.keys()
        seen = sum(self.functions[node] for node in serial)
        room = max(0.0, self.pool * self.period - sum(parallel.values()))
        part = min(1.0, room / seen) if seen > 0 else 1.0
        return {
            node: max(seconds * part, min(seconds, self.costs[node].cpu_seconds))
            if node in serial
            else seconds
            for node, seconds in self.functions.items()
        }

    def parallel_functions(self) -> dict[str, float]:
        """Those in the pool of steps that call several at a time, by node."""
        several = {
            n for u in self.units if u.functions and u.calls > 1 for n in u.steps
        }
        return {n: c for n, c in self.functions.items() if n in several}

    def pool_full(self) -> bool:
        """Whether functions, parallel ones above all, have kept all its threads busy."""
        there = self.pool * self.period
        return (
            sum(self.functions.values()) >= ALL_IN_POOL_SHARE * there
            and sum(self.parallel_functions().values()) >= there / 2
        )

    def gain_to(self, after: float) -> float:
        """How many times as fast the pipeline is with another period of the model."""
        before = self.model_period({}, {})
        # What the model does not explain (hand-overs, jitter, the harness) stays.
        rest = max(0.0, self.period - before)
        return (before + rest) / max(after + rest, 1e-9)

    def model_period(
        self, factors: Mapping[str, float], workers: Mapping[str, float]
    ) -> float:
        """The slowest unit's period, or that of the CPUs."""
        return max(
            (period for _, period in self.unit_periods(factors, workers)), default=0.0
        )

    def unit_periods(
        self, factors: Mapping[str, float], workers: Mapping[str, float]
    ) -> list[tuple[Unit | None, float]]:
        """Each unit with its period; None stands for the CPUs."""
        units = self.units
        for node, count in workers.items():
            units = [
                new for unit in units for new in self.with_workers(unit, node, count)
            ]
        periods: list[tuple[Unit | None, float]] = [
            (unit, unit.period(factors)) for unit in units
        ]
        if self.pooled:
            pool = Unit(self.pooled, float(self.pool), True)
            periods.append((pool, pool.period(factors)))
        cpu = sum(
            cost.cpu_seconds * factors.get(node, 1.0)
            for node, cost in self.costs.items()
        )
        periods.append((None, cpu / self.cpus))
        return periods

    def with_workers(self, unit: Unit, node: str, count: float) -> list[Unit]:
        """What becomes of a unit when a step gets workers of its own."""
        below = set(self.below.get(node, []))
        if node not in unit.steps:
            return parts(unit, below, {node}) if unit.functions else [unit]
        most = min(count, max(self.pool, unit.workers))
        if unit.own_threads:
            most = count
        if unit.functions:
            return [replace(unit, workers=most, calls=count)]
        own = {node: unit.steps[node]}
        moved = Unit(own, most, True, self.fetched_by(node), count)
        return [moved, *parts(unit, below, {node})]

    def fetched_by(self, node: str) -> dict[str, float]:
        """What a call of a step fetches, with its costs; nothing for other steps."""
        if node not in self.fetching:
            return {}
        return {each: self.costs[each].seconds for each in self.below[node]}

    def next_limit(
        self, factors: Mapping[str, float], workers: Mapping[str, float] | None = None
    ) -> str | None:
        """The step that would hold the changed pipeline up: its node; None: the CPUs."""
        unit = max(self.unit_periods(factors, workers or {}), key=lambda pair: pair[1])[
            0
        ]
        return None if unit is None else unit.heaviest(factors)


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
    find_costs(model, by_node, run, own_threads)
    blame(model, by_node, run)
    return model


def find_costs(
    model: PipelineModel,
    steps: dict[str, Step],
    run: StageRun,
    own_threads: frozenset[str],
) -> None:
    """Fills in units, seconds and CPU seconds."""
    readings, per = run.readings, 1e9 * run.elements
    functions: dict[str, float] = {}
    for node, step in steps.items():
        reading, cost = readings[node], model.costs[node]
        if reading.is_async == 1:
            functions[node] = function_ns(reading) / per
            # No more than the pool has, unless more were seen at work.
            most = max(model.pool, functions[node] / model.period)
            if node in own_threads:
                most = reading.parallelism
            workers = float(max(1.0, min(reading.parallelism, most)))
            cost.seconds = functions[node]
            cost.period = functions[node] / workers
            if reading.parallelism > 0:
                calls = float(reading.parallelism)
                model.units.append(
                    Unit(
                        {node: functions[node]},
                        workers,
                        True,
                        calls=calls,
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
    # Functions run in the pool, those of serial steps, too: its CPU time is what no
    # thread between the probes has used.
    pooled = run.cpu_ns / per - sum(c.cpu_seconds for c in model.costs.values())
    for node, step in steps.items():
        if step.functions and node not in functions:
            functions[node] = model.costs[node].seconds
    model.functions = {n: c for n, c in functions.items() if n not in own_threads}
    shared = sum(model.functions.values())
    if shared / model.pool <= model.period / ALL_IN_POOL_SHARE:
        model.pooled = model.functions
    weight = sum(functions.values())
    for node, seconds in functions.items():
        if weight > 0 and pooled > 0:
            cost = model.costs[node]
            cost.cpu_seconds += min(seconds, pooled * seconds / weight)


def own(total: int, inputs: list[int]) -> int:
    """A step's part of what it and its inputs took."""
    return max(0, total - sum(inputs))


def function_ns(reading: Reading) -> float:
    """What a parallel step's functions took, those of the datasets they made included."""
    inner = 0.0
    if reading.inner_elements > 0:  # a sample of them: each gives elements of the step
        inner = reading.inner_ns / reading.inner_elements * reading.elements
    return reading.model_ns + inner


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


def blame(model: PipelineModel, steps: dict[str, Step], run: StageRun) -> None:
    """Fills in the shares: from the last thread down, who waits passes it on."""
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
    shared = all_fill_pool(model)
    if not shared:
        fill_unseen(model, heaviest, run)
    if model.cpu_bound and heaviest and max(heaviest.values()) > 0.5:
        blame_by(model, in_pipeline, "cpu_seconds")
    elif shared or one_fills_pool(model):
        blame_by(model, in_pipeline, "seconds")
    if any(cost.share > 0 for cost in model.costs.values()):
        worst = max(model.costs, key=lambda node: model.costs[node].share)
        model.critical = next(
            (unit for unit in model.units if worst in unit.steps), None
        )


def passed_on(waiting: float) -> float:
    """The part of a thread's blame that goes to those that it waits for.

    All of it, however short the waits, once they are more than hand-overs: who has time
    to wait would not make the pipeline faster by being faster.
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
    # Calls take turns: in one turn an element is fetched, and computed.
    computing = max(function_ns(reading) / run.wall_ns, workers - inside)
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
                turn = 0.9 * model.period * unit.workers - sum(unit.fetched.values())
                seconds = max(unit.steps[node], turn)
                unit.steps[node] = cost.seconds = seconds
                cost.period = seconds / unit.workers


def all_fill_pool(model: PipelineModel) -> bool:
    """Whether all functions together, and no thread alone, hold the pipeline up.

    They run in one pool, of as many threads as there are CPUs.
    """
    period = sum(model.pooled.values()) / model.pool
    longest = max((unit.period({}) for unit in model.units), default=0.0)
    return period >= ALL_IN_POOL_SHARE * model.period and period > longest


def one_fills_pool(model: PipelineModel) -> bool:
    """Whether functions of one step that sleep or wait have taken all of its threads.

    Serial steps elsewhere then wait for a thread; that wait looks like their own time.
    """
    filled = max(
        (
            sum(unit.steps.values()) / model.period
            for unit in model.units
            if unit.functions and unit.workers >= model.pool and not unit.own_threads
        ),
        default=0.0,
    )
    return filled >= FULL_POOL_SHARE * model.pool


def blame_by(model: PipelineModel, weight: float, what: str) -> None:
    """Where all wait for CPUs, or for threads, the shares are those of what is used."""
    total = sum(getattr(cost, what) for cost in model.costs.values())
    if total <= 0:
        return
    for cost in model.costs.values():
        cost.share = weight * getattr(cost, what) / total
