"""What a pipeline takes beyond what its stages do."""

import time

import numpy as np

from benchmarks.pipeline_stages import Stages
from benchmarks.targets import Row, row

LARGE = 1 << 20  # float32: 4 MiB


def rows(quick: bool) -> list[Row]:
    """Stages that wait, hand-overs of a number, hand-overs of 4 MiB."""
    repeats = 5 if quick else 15
    waiting = Stages(seconds=0.005)
    ideal = [each / waiting.ideal_s for each in times(waiting, repeats)]
    small = Stages(count=64, repeat=8)
    large = Stages(elements=LARGE, count=32, repeat=1)
    copies = [copy_seconds() for _ in range(repeats)]
    return [
        row(
            "4 stages of 5 ms, grouped, 32 mini-batches: of the ideal (N + 3) x 5 ms",
            "at most",
            1.1,
            "x",
            ideal,
        ),
        row(
            "hand-over of a number from one stage to the next, with both their work",
            "at most",
            10,
            "us",
            [
                each / small.count / (Stages.STAGES - 1) * 1e6
                for each in times(small, repeats)
            ],
        ),
        row(
            "    a mini-batch of 4 MiB through 4 stages",
            "",
            0,
            "ms",
            [each / large.count * 1e3 for each in times(large, repeats)],
        ),
        row("    memcpy of 4 MiB", "", 0, "ms", [each * 1e3 for each in copies]),
    ]


def times(stages: Stages, repeats: int) -> list[float]:
    """Seconds of each run."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        stages.run()
        found.append(time.perf_counter() - start)
    return found


def copy_seconds() -> float:
    """One copy of what the large stages hand on."""
    source = np.ones(LARGE, np.float32)
    target = np.empty_like(source)
    np.copyto(target, source)
    start = time.perf_counter()
    for _ in range(10):
        np.copyto(target, source)
    return (time.perf_counter() - start) / 10
