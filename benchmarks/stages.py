"""Does attribution name the slow stage? Random pipelines with planted costs.

    python -m benchmarks.stages --pipelines 30 --seed 1            sleeps
    python -m benchmarks.stages --pipelines 6 --cost burn          CPU
    python -m benchmarks.stages --overhead                         of the probes
    python -m benchmarks.stages --pipelines 20 --gain              predicted and measured

Each pipeline has three to five stages of 1 to 4 ms in random order: maps, serial and
parallel, now and then behind a prefetch. The slowest of them is at least 30 % slower than
the others. What is planted says which stage holds the pipeline back and with what fraction:
stages in one thread add up, a parallel one's calls each fetch and compute, all functions
take the pool's threads one by one, and the slowest such station is the period. Printed are
how often that stage came first, how far its fraction was off, and for --gain how far the
predicted gain of making it twice as fast was from the gain measured with the stage planted
at half its cost.

The overhead is that of the probes on a pipeline of 1 ms per element; the run that is
reported has none.

Sleeps can be trusted on a busy machine; burning wants a quiet one.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ipufeed  # noqa: F401, loads the native library before TensorFlow starts


@dataclass(frozen=True)
class Planted:
    """A stage: its cost in ms, and how it runs."""

    name: str
    cost_ms: float
    workers: int  # 0: serial
    prefetch: bool  # behind it


def plan(rng: random.Random, cpus: int | None) -> list[Planted]:
    """Returns a random pipeline; with `cpus`, of stages that need one each."""
    while True:
        stages = [
            Planted(
                f"stage_{letter}",
                rng.uniform(1.0, 4.0),
                0,
                rng.random() < 0.2,
            )
            for letter in rng.sample("abcdefgh", rng.randint(3, 5))
        ]
        # One parallel stage at most: functions share a pool of one thread per CPU.
        if cpus is None and rng.random() < 0.6:
            chosen = rng.randrange(len(stages))
            stages[chosen] = replace(stages[chosen], workers=2)
        first, share, clear = truth(stages)
        if first and share > 0.3 and clear:
            return stages


def units(stages: list[Planted]) -> list[list[tuple[str, float]]]:
    """Returns the groups that cannot overlap: (stage, ms of the period)."""
    found: list[list[tuple[str, float]]] = [[]]
    for stage in stages:
        if stage.workers:
            # A call fetches its element, then works; and the fetching is one thread's.
            turn = [*found[-1], (stage.name, stage.cost_ms)]
            found.append([(name, ms / stage.workers) for name, ms in turn])
            found.append([])
            continue
        found[-1].append((stage.name, stage.cost_ms))
        if stage.prefetch:
            found.append([])
    # All functions share the pool's threads.
    pool = len(os.sched_getaffinity(0))
    found.append([(stage.name, stage.cost_ms / pool) for stage in stages])
    return [unit for unit in found if unit]


def truth(stages: list[Planted]) -> tuple[str, float, bool]:
    """Returns the slowest stage, its fraction, and whether it is clearly the slowest."""
    periods = sorted(units(stages), key=lambda unit: -sum(ms for _, ms in unit))
    period = sum(ms for _, ms in periods[0])
    ranked = sorted(periods[0], key=lambda pair: -pair[1])
    clear = len(ranked) < 2 or ranked[0][1] > 1.3 * ranked[1][1]
    for unit in periods[1:]:
        other = sum(ms for _, ms in unit)
        same = abs(dict(unit).get(ranked[0][0], 0.0) / other - ranked[0][1] / period)
        clear = clear and (period > 1.3 * other or same < 0.05)
    return ranked[0][0], ranked[0][1] / period, clear


def period_ms(stages: list[Planted]) -> float:
    """Returns the planted time of the pipeline for an element."""
    return max(sum(ms for _, ms in unit) for unit in units(stages))


def build(stages: list[Planted], work: Callable[[float], None]) -> Any:
    """Returns the tf.data pipeline."""
    import tensorflow as tf

    dataset = tf.data.Dataset.range(10**9)
    for stage in stages:

        def function(x: Any, cost_ms: float = stage.cost_ms) -> Any:
            def python(value: Any) -> Any:
                work(cost_ms / 1e3)
                return value

            result = tf.numpy_function(python, [x], tf.int64)
            result.set_shape([])
            return result

        dataset = dataset.map(
            function, num_parallel_calls=stage.workers or None, name=stage.name
        )
        if stage.prefetch:
            dataset = dataset.prefetch(4)
    return dataset


def burn(seconds: float) -> None:
    """Keeps a CPU busy until it has used the CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def measured_gain(
    stages: list[Planted], name: str, work: Callable[[float], None]
) -> float:
    """Measures the gain in rate if the named stage costs half, by alternate runs."""
    from ipufeed.benchmark.advice.verify import gain_of

    halved = [
        replace(stage, cost_ms=stage.cost_ms / 2) if stage.name == name else stage
        for stage in stages
    ]
    gain = gain_of(build(stages, work), build(halved, work), 0.8)
    if gain is None:
        raise RuntimeError("the runs were too short")
    return gain


def gain_with_probes(seconds: float) -> float | None:
    """Measures the rate with probes over that without; None if the runs are too short."""
    from ipufeed import _native
    from ipufeed.benchmark.advice.verify import gain_of
    from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph
    from ipufeed.benchmark.stages.probe_run import insert_probes

    stages = [Planted("slow", 1.0, 0, False)]
    dataset = build(stages, time.sleep).map(lambda x: x + 1).shuffle(8)
    graph = PipelineGraph.of(dataset)
    group = _native.entry().ipufeed_probes_new(len(graph.steps))
    return gain_of(
        dataset, graph.without_rewrites(*insert_probes(graph, group)), seconds
    )


def overhead() -> None:
    """Prints the rate with probes over the rate without, three times."""
    gains = [gain_with_probes(2.0) for _ in range(3)]
    print(
        "rate with probes / without:",
        ", ".join(f"{gain:.4f}" for gain in gains if gain),
    )


def main() -> None:
    """Runs the pipelines and prints a line for each, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--cost", choices=["sleep", "burn"], default="sleep")
    parser.add_argument("--gain", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    options = parser.parse_args()
    if options.overhead:
        overhead()
        return

    from ipufeed.benchmark.advice.what_if import answer, parse_what_if
    from ipufeed.benchmark.stages.explain import explain

    rng = random.Random(options.seed)
    work = burn if options.cost == "burn" else time.sleep
    named, errors, gains = 0, [], []
    for number in range(options.pipelines):
        stages = plan(rng, 1 if options.cost == "burn" else None)
        first, share, _ = truth(stages)
        explanation = explain(build(stages, work), options.seconds, cut=False)
        if explanation is None:
            print(f"{number:3} no explanation")
            continue
        top = explanation.stages[0]
        named += top.name == first
        found = next(stage.share for stage in explanation.stages if stage.name == first)
        errors.append(abs(found - share))
        line = (
            f"{number:3} planted {first} {share:4.0%}, found {top.name} {top.share:4.0%},"
            f" period {period_ms(stages):5.2f} / {explanation.model.period * 1e3:5.2f} ms"
        )
        if options.gain:
            reply = answer(parse_what_if(f"{first}=2x"), explanation)
            predicted = reply["predicted_elements_per_second"] / explanation.rate
            gain = measured_gain(stages, first, work)
            gains.append(abs(predicted - gain) / gain)
            line += f", gain {predicted:.2f} / {gain:.2f}"
        print(line, flush=True)
    print(f"named first: {named} of {options.pipelines}")
    if errors:
        close = sum(error <= 0.1 for error in errors)
        print(
            f"share within 10 points: {close} of {len(errors)}, "
            f"median error {statistics.median(errors):.1%}, most {max(errors):.1%}"
        )
    if gains:
        close = sum(error <= 0.25 for error in gains)
        print(
            f"gain within 25 %: {close} of {len(gains)}, "
            f"median error {statistics.median(gains):.1%}, most {max(gains):.1%}"
        )


if __name__ == "__main__":
    main()
