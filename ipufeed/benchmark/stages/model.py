"""What a pipeline's rate follows from: a model with a unit for each thing that can wait.

    source -> map -> [ prefetch ] -> batch -> [ parallel map ] -> feeder
    |____ unit: a thread ____|        |_ unit: thread _| |_ unit: p workers

A step without threads of its own runs in the thread that asks for its elements; all such
steps up to the next buffer make one unit, and their times add up. The functions of a
parallel step are a unit of their own, p at a time. Units overlap, so that a pipeline's
period (the time from one element to the next) is that of its slowest unit, no less than
all their CPU time divided by the CPUs there are, and no less than all functions' time
divided by the threads of the pool that they run in (thread_pool.py).

A parallel map overlaps less than its name suggests: a call begins by fetching its
element, so that p calls alternate between fetching and computing. One call at a time (as
in a serial map that tf.data has fused with the batch behind it) overlaps with nothing
before it.

What the units cost is read from probes (costs.py), and so is each stage's share in
the pipeline's period (shares.py).

Source: the bottleneck law of operational analysis (Denning and Buzen, "The Operational
Analysis of Queueing Network Models", ACM Computing Surveys 10 (3), 1978).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass
class Unit:
    """What runs one after another: a thread's steps, or a step's functions.

    Attributes:
        steps: Seconds per element of the pipeline, by node.
        workers: That share the work.
        functions: Whether it is the functions of a parallel step.
        fetched: What each call fetches before it computes, likewise.
        calls: At a time, fetching or computing; workers compute.
        own_threads: Whether the functions have threads in addition to the pool's.
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
        call = work + changed(self.fetched, factors)
        return max(work / self.workers, call / max(self.calls, self.workers))

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
        functions: Seconds of functions in the pool, by node.
        pool_full: Whether they keep all its threads busy, and no thread of the pipeline
            all of its time.
        overbooked: Whether these are more than it has: some of it then is waiting for a
            thread; how much is unknown.
        idle: CPUs that neither the pipeline nor other processes used.
    """

    period: float
    cpus: float
    cpu_bound: bool
    pool: int = 1 << 30
    units: list[Unit] = field(default_factory=list)
    below: dict[str, list[str]] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)
    functions: dict[str, float] = field(default_factory=dict)
    pool_full: bool = False
    overbooked: bool = False
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
        """Likewise, with a pool of this size and other numbers of calls, by node."""
        return self.gain_to(resized(self, threads, calls).model_period({}, {}))

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
        if self.functions and not self.overbooked:
            pool = Unit(self.functions, float(self.pool), True)
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


def resized(
    model: PipelineModel, threads: int, calls: Mapping[str, float]
) -> PipelineModel:
    """The model of the pipeline with `threads` threads.

    Args:
        model: Of the pipeline as it is.
        threads: Of the pool.
        calls: Of parallel steps, by node, where they change.
    """
    units = []
    for unit in model.units:
        if unit.functions and not unit.own_threads:
            (node,) = unit.steps
            most = calls.get(node, max(unit.calls, unit.workers))
            unit = replace(unit, workers=min(most, float(threads)), calls=most)
        units.append(unit)
    return replace(model, pool=threads, units=units, overbooked=False)
