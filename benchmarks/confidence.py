"""How often `compare` is wrong, and how often it sees a planted change, in real runs.

    python -m benchmarks.confidence [--pairs 100] [--seconds 10] [--only sleep]

Each pair is a run of a pipeline and one of the same (false alarms), or of one that takes
5 % longer (what is seen), measured alternately as the command measures. Pipelines:
`sleep` waits 2 ms for each element, `slow` 10 ms, `burn` computes on one thread, `parallel`
on all under AUTOTUNE. The verdicts are those of one run against one, with default
settings unless --seconds says otherwise: 100 pairs then take more than an hour for each
pipeline.

Promised are at most 1 false alarm, and at least 95 changes seen, of 100 on a quiet machine.
Pairs during which other processes took the CPUs are counted, and listed apart. The
intervals are Wilson's, for a fraction, at 95 %.
"""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipufeed.benchmark import Settings, compare, measure

CHANGE = 0.05
# CPUs that other processes may use on a machine that counts as quiet.
QUIET_CPUS = 0.1


def sleep(slower: float) -> Any:
    """Returns a dataset that sleeps 2 ms for each element."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    endless = tf.data.Dataset.range(1).repeat()
    return endless.apply(testing.sleep(round(2000 * slower)))


def slow(slower: float) -> Any:
    """Returns a dataset that sleeps 10 ms for each element.

    A virtual machine wakes threads up late, by 0.1 to 0.3 ms, which changes from minute to
    minute. A run cannot correct for that: it is up to 15 % of 2 ms, and 3 % of 10 ms.
    """
    return sleep(5 * slower)


def burn(slower: float, parallel: int | None = None) -> Any:
    """Returns a dataset with 1 ms of arithmetic for each element, in a serial loop."""
    import tensorflow as tf

    rounds = tf.constant(round(400 * slower))

    def work(i: Any) -> Any:
        start = tf.random.stateless_uniform([64], [0, 1]) + tf.cast(i, tf.float32)
        return tf.while_loop(
            lambda n, x: n < rounds,
            lambda n, x: (n + 1, tf.sin(x)),
            [tf.constant(0), start],
            parallel_iterations=1,
        )[1]

    return tf.data.Dataset.range(10**12).map(work, num_parallel_calls=parallel)


def parallel(slower: float) -> Any:
    """Returns `burn` on all CPUs, in batches, with the parallelism of AUTOTUNE."""
    import tensorflow as tf

    dataset = burn(slower, parallel=tf.data.AUTOTUNE)
    return dataset.batch(8).prefetch(tf.data.AUTOTUNE)


PIPELINES: dict[str, Callable[[float], Any]] = {
    "sleep": sleep,
    "slow": slow,
    "burn": burn,
    "parallel": parallel,
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A base, a new run, and what was found."""

    verdict: str
    ratio: float
    smallest: float
    others: float

    @property
    def quiet(self) -> bool:
        """Whether other processes left the CPUs alone."""
        return self.others <= QUIET_CPUS


def run_pairs(
    pipeline: Callable[[float], Any], slower: float, pairs: int, seconds: float | None
) -> list[Pair]:
    """Measures base and new alternately."""
    found = []
    for n in range(pairs):
        settings = Settings(seconds=seconds)
        # Each comes first in every other pair.
        order = [1.0, slower] if n % 2 == 0 else [slower, 1.0]
        first, second = (measure(pipeline(factor), settings) for factor in order)
        base, new = (first, second) if n % 2 == 0 else (second, first)
        comparison = compare(base, new)
        others = [run.machine["cpus_used_by_others"] or 0.0 for run in (base, new)]
        found.append(
            Pair(
                comparison.verdict,
                comparison.ratio,
                comparison.smallest_detectable or math.inf,
                max(others),
            )
        )
        print(".", end="", file=sys.stderr, flush=True)
    return found


def wilson(count: int, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of the fraction `count` / `of`."""
    if of == 0:
        return 0.0, 1.0
    z, p = 1.96, count / of
    middle, half = (
        p + z * z / 2 / of,
        z * math.sqrt(p * (1 - p) / of + (z / 2 / of) ** 2),
    )
    scale = 1 + z * z / of
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def line(what: str, pairs: list[Pair], wanted: Callable[[Pair], bool]) -> str:
    """Returns a row of the table: the fraction, its interval, its resolution."""
    count = sum(map(wanted, pairs))
    low, high = wilson(count, len(pairs))
    smallest = sorted(pair.smallest for pair in pairs)
    middle = smallest[len(smallest) // 2] if smallest else math.nan
    seen = f"{middle:.1%}" if middle < 1 else "> 100 %" if smallest else "-"
    return (
        f"  {what:<34} {count:>4} of {len(pairs):<4} [{low:.3f}, {high:.3f}] {seen:>8}"
    )


def main() -> int:
    """Measures and prints; returns 1 if a promise is surely broken on a quiet machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.confidence")
    parser.add_argument("--pairs", type=int, default=100, help="of each kind")
    parser.add_argument(
        "--seconds", type=float, help="of a run; default: the command's"
    )
    parser.add_argument("--only", choices=PIPELINES, help="one pipeline")
    parser.add_argument("--json", type=Path, help="every pair, for a closer look")
    options = parser.parse_args()

    broken, everything = False, {}
    for name, pipeline in PIPELINES.items():
        if options.only not in (None, name):
            continue
        same = run_pairs(pipeline, 1.0, options.pairs, options.seconds)
        slower = run_pairs(pipeline, 1 + CHANGE, options.pairs, options.seconds)
        print(file=sys.stderr)
        everything[name] = {
            "same": [dataclasses.asdict(pair) for pair in same],
            "slower": [dataclasses.asdict(pair) for pair in slower],
        }
        print(f"{name:<36} {'count':>12} {'95 % interval':>16} {'sees':>8}")
        quiet_same = [pair for pair in same if pair.quiet]
        quiet_slower = [pair for pair in slower if pair.quiet]
        for what, pairs, wanted in (
            ("called different, quiet", quiet_same, different),
            ("called different, all", same, different),
            ("5 % slower is seen, quiet", quiet_slower, worse),
            ("5 % slower is seen, all", slower, worse),
            ("5 % slower is called better, all", slower, better),
        ):
            print(line(what, pairs, wanted), flush=True)
        broken |= wilson(sum(map(different, quiet_same)), len(quiet_same))[0] > 0.01
        broken |= wilson(sum(map(worse, quiet_slower)), len(quiet_slower))[1] < 0.95
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1))
    return int(broken)


def different(pair: Pair) -> bool:
    """Whether the verdict is that the rates differ: wrong where they are the same."""
    return pair.verdict != "cannot tell"


def worse(pair: Pair) -> bool:
    return pair.verdict == "worse"


def better(pair: Pair) -> bool:
    return pair.verdict == "better"


if __name__ == "__main__":
    sys.exit(main())
