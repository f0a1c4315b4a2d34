"""A queueing model of a pipeline: a station for each resource that elements wait for.

    source -> map -> [ prefetch ] -> batch -> [ parallel map ] -> feeder
    |_ station: a thread _|      |_ station: thread _| |_ station: p workers

A stage without threads of its own runs in the thread that requests its elements; all such
stages up to the next buffer form one station, and their times add up. The functions of a
parallel stage form a station with p workers. Stations overlap, so that a pipeline's period
(the time from one element to the next) is that of its slowest station, at least all CPU
time divided by the CPUs, and at least the time of all functions divided by the threads of
the pool that they run in (thread_pool.py).

A parallel map overlaps less than its name suggests: each call begins by fetching its
element, so that p calls alternate between fetching and computing. One call at a time (as
in a serial map that tf.data fused with the batch after it) overlaps with nothing before it.

costs.py derives the times of the stations from the probes, shares.py each stage's fraction
of the pipeline's period.

Source: the bottleneck law of operational analysis (Denning and Buzen, "The Operational
Analysis of Queueing Network Models", ACM Computing Surveys 10 (3), 1978).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NONE: Mapping[str, float] = {}


@dataclass
class Station:
    """A thread with its stages, or the workers that run a parallel stage's functions.

    Attributes:
        steps: Seconds for each element of the pipeline, by node.
        workers: Number of servers.
        functions: Whether it runs the functions of a parallel stage.
        fetched: Seconds of the stages that a call fetches from before it computes, by node.
        calls: Concurrent calls, fetching or computing; `workers` of them can compute.
        own_threads: Whether the functions run in threads outside of the pool.
    """

    steps: dict[str, float]
    workers: float = 1.0
    functions: bool = False
    fetched: dict[str, float] = field(default_factory=dict)
    calls: float = 1.0
    own_threads: bool = False

    def period(self, factors: Mapping[str, float]) -> float:
        """Returns its seconds for each element of the pipeline, with scaled costs."""
        work = _scaled(self.steps, factors)
        if not self.fetched:
            return work / self.workers
        call = work + _scaled(self.fetched, factors)
        return max(work / self.workers, call / max(self.calls, self.workers))

    def heaviest(self, factors: Mapping[str, float]) -> str:
        """Returns the stage with the largest scaled cost."""
        all_steps = {**self.fetched, **self.steps}
        return max(all_steps, key=lambda node: all_steps[node] * factors.get(node, 1.0))


def _split(station: Station, made: set[str], moved: set[str]) -> list[Station]:
    """Returns the rest of a station when `made` gets a thread, and `moved` workers."""
    gone = made | moved
    if station.functions:
        fetched = {n: c for n, c in station.fetched.items() if n not in gone}
        return [replace(station, fetched=fetched)]
    groups = (made & station.steps.keys(), station.steps.keys() - gone)
    return [
        replace(station, steps={n: c for n, c in station.steps.items() if n in group})
        for group in groups
        if group
    ]


def _scaled(costs: Mapping[str, float], factors: Mapping[str, float]) -> float:
    return sum(cost * factors.get(node, 1.0) for node, cost in costs.items())


@dataclass
class StageCost:
    """A stage's costs, in seconds for each element of the whole pipeline.

    Attributes:
        share: Fraction of the wall time that the stage is responsible for, in [0, 1].
        seconds: Time of the stage itself, summed over its threads.
        cpu_seconds: CPU time, likewise.
        period: Period of its station, if the stage were alone in it.
    """

    share: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    period: float = 0.0


@dataclass
class PipelineModel:
    """The stations of a pipeline, and the costs of its stages.

    Attributes:
        period: Seconds from one element to the next, in the run with probes.
        cpus: CPUs that the pipeline can have.
        cpu_bound: Whether it uses all of them.
        pool: Threads of the pool that runs the functions of all stages.
        critical: The bottleneck; None if it is the consumer.
        costs: Costs of the stages, by node.
        stations: All of them.
        below: The stages that a stage's thread runs before it, by node.
        fetching: Stages whose calls fetch their elements, or would if they were parallel.
        functions: Seconds of functions in the pool, by node.
        pool_full: Whether functions keep all threads of the pool busy, while no thread of
            the pipeline is busy all of the time.
        overbooked: Whether `functions` exceeds the pool's time, so that an unknown part of
            it is waiting for a thread.
        idle: CPUs that neither the pipeline nor other processes used.
    """

    period: float
    cpus: float
    cpu_bound: bool
    pool: int = 1 << 30
    stations: list[Station] = field(default_factory=list)
    below: dict[str, list[str]] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)
    functions: dict[str, float] = field(default_factory=dict)
    pool_full: bool = False
    overbooked: bool = False
    idle: float = 0.0
    costs: dict[str, StageCost] = field(default_factory=dict)
    critical: Station | None = None

    def predict(
        self, factors: Mapping[str, float], workers: Mapping[str, float] | None = None
    ) -> float:
        """Returns the speed-up of the pipeline with changed stages.

        Args:
            factors: Factors on the stages' costs, by node: 0.5 for twice as fast, 0 for
                free.
            workers: Workers of stages that become parallel, or get more, by node.
        """
        return self._gain(self, factors, workers or NONE)

    def predict_prefetch(self, node: str) -> float:
        """Returns the speed-up with a buffer, and so a thread of its own, after a stage."""
        made = {*self.below.get(node, []), node}
        stations = []
        for station in self.stations:
            stations += _split(station, made, set())
        return self._gain(replace(self, stations=stations))

    def predict_pool(self, threads: int, calls: Mapping[str, float]) -> float:
        """Returns the speed-up with a pool of this size.

        Args:
            threads: Threads of the pool.
            calls: Concurrent calls of parallel stages, by node, where they change.
        """
        stations = []
        for station in self.stations:
            if station.functions and not station.own_threads:
                (node,) = station.steps
                most = calls.get(node, max(station.calls, station.workers))
                workers = min(most, float(threads))
                station = replace(station, workers=workers, calls=most)
            stations.append(station)
        return self._gain(
            replace(self, pool=threads, stations=stations, overbooked=False)
        )

    def _gain(
        self,
        changed: PipelineModel,
        factors: Mapping[str, float] = NONE,
        workers: Mapping[str, float] = NONE,
    ) -> float:
        before = self._model_period(NONE, NONE)
        after = changed._model_period(factors, workers)
        # What the model does not explain (hand-overs, jitter, the harness) is unchanged.
        rest = max(0.0, self.period - before)
        return (before + rest) / max(after + rest, 1e-9)

    def _model_period(
        self, factors: Mapping[str, float], workers: Mapping[str, float]
    ) -> float:
        return max(period for _, period in self._station_periods(factors, workers))

    def _station_periods(
        self, factors: Mapping[str, float], workers: Mapping[str, float]
    ) -> list[tuple[Station | None, float]]:
        """Returns each station with its period, and the CPUs as None with theirs."""
        stations = self.stations
        for node, count in workers.items():
            stations = [
                new
                for station in stations
                for new in self._with_workers(station, node, count)
            ]
        periods: list[tuple[Station | None, float]] = [
            (station, station.period(factors)) for station in stations
        ]
        if self.functions and not self.overbooked:
            pool = Station(self.functions, float(self.pool), True)
            periods.append((pool, pool.period(factors)))
        cpu = sum(
            cost.cpu_seconds * factors.get(node, 1.0)
            for node, cost in self.costs.items()
        )
        periods.append((None, cpu / self.cpus))
        return periods

    def _with_workers(self, station: Station, node: str, count: float) -> list[Station]:
        """Returns the stations that replace one when a stage gets workers of its own."""
        below = set(self.below.get(node, []))
        if node not in station.steps:
            return _split(station, below, {node}) if station.functions else [station]
        most = min(count, max(self.pool, station.workers))
        if station.own_threads:
            most = count
        if station.functions:
            return [replace(station, workers=most, calls=count)]
        own = {node: station.steps[node]}
        moved = Station(own, most, True, self.fetched_by(node), count)
        return [moved, *_split(station, below, {node})]

    def fetched_by(self, node: str) -> dict[str, float]:
        """Returns the costs of the stages that a call of a stage fetches from, by node."""
        if node not in self.fetching:
            return {}
        return {each: self.costs[each].seconds for each in self.below[node]}

    def next_limit(
        self, factors: Mapping[str, float], workers: Mapping[str, float] | None = None
    ) -> str | None:
        """Returns the bottleneck of the changed pipeline: a node; None: the CPUs."""
        periods = self._station_periods(factors, workers or NONE)
        station, _ = max(periods, key=lambda pair: pair[1])
        return None if station is None else station.heaviest(factors)
