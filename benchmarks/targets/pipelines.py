"""What a pipeline takes beyond what its stages do."""

import operator
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pipeline_stages import Stages
from benchmarks.targets import Row, comparison, row
from ipufeed.parallel.pipeline.schedules import PipelineSchedule

Array = NDArray[Any]
STAGE_S = 0.005
LARGE = 1 << 20  # float32: 4 MiB
MOST_STAGES = 8
BUFFERS = 24  # too many to fit into a cache


def rows(quick: bool) -> list[Row]:
    """Stages that wait, hand-overs of a number, hand-overs of 4 MiB."""
    repeats = 5 if quick else 15
    waiting = Stages(seconds=STAGE_S)
    ideal, bare = [], []
    for _ in range(repeats):  # alternately, as below
        ideal += [each / waiting.ideal_s for each in times(waiting, 1)]
        bare.append(bare_seconds(waiting.count) / waiting.ideal_s)
    small = Stages(count=64, repeat=64)
    numbers = times(small, repeats)
    copying = Copying()
    hand_overs, additions, copies = [], [], []
    for _ in range(repeats):  # alternately: other load slows down both
        copies.append(copying.seconds(np.copyto))
        additions.append(copying.seconds(add_one))
        less, more = (one_at_a_time(stages) for stages in (2, MOST_STAGES))
        hand_overs.append((more - less) / (MOST_STAGES - 2) - additions[-1])
    return [
        row(
            "4 stages of 5 ms, grouped, 32 mini-batches: of the ideal (N + 3) x 5 ms",
            "at most",
            1.1,
            "x",
            ideal,
        ),
        row(
            "    4 bare threads that sleep as often, with a barrier after each 5 ms",
            "",
            0,
            "x",
            bare,
        ),
        row(
            "hand-over of a number from one stage to the next, with both their work",
            "at most",
            5,
            "us",
            [each / small.count / (Stages.STAGES - 1) * 1e6 for each in numbers],
        ),
        comparison(
            "hand-over of 4 MiB: a further stage less its addition, against one copy",
            "at most",
            1.15,
            "x",
            operator.truediv,
            hand_overs,
            copies,
        ),
        row("    the addition", "", 0, "ms", [each * 1e3 for each in additions]),
        row(
            "    memcpy of 4 MiB that no cache has",
            "",
            0,
            "ms",
            [each * 1e3 for each in copies],
        ),
    ]


def one_at_a_time(stages: int) -> float:
    """Returns the least seconds of a mini-batch of 4 MiB, through `stages` stages."""
    made = Stages(elements=LARGE, stages=stages, schedule=PipelineSchedule.Sequential)
    return min(times(made, 3)) / made.count


def times(stages: Stages, repeats: int) -> list[float]:
    """Seconds of each run."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        stages.run()
        found.append(time.perf_counter() - start)
    return found


def bare_seconds(count: int) -> float:
    """Returns the seconds of `count` mini-batches in threads that only sleep.

    After each sleep the threads wait at a barrier. What exceeds the ideal is what this
    machine adds to each sleep: late timers, and CPUs that other processes use.
    """
    steps = count + Stages.STAGES - 1
    barrier = threading.Barrier(Stages.STAGES)

    def stage() -> None:
        for _ in range(steps):
            time.sleep(STAGE_S)
            barrier.wait()

    threads = [threading.Thread(target=stage) for _ in range(Stages.STAGES)]
    start = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return time.perf_counter() - start


def add_one(target: Array, source: Array) -> None:
    """Does the work of a stage of `Stages`."""
    np.add(source, 1.0, out=target)


class Copying:
    """Work on what the large stages hand on, between alternating buffers.

    One pair of them would stay in the caches, where the stages' tensors do not.
    """

    def __init__(self) -> None:
        self.buffers = [np.ones(LARGE, np.float32) for _ in range(BUFFERS)]

    def seconds(self, work: Callable[[Array, Array], None]) -> float:
        """Returns the mean seconds of a call of `work(target, source)`."""
        start = time.perf_counter()
        for source, target in zip(self.buffers[::2], self.buffers[1::2], strict=True):
            work(target, source)
        return (time.perf_counter() - start) / (BUFFERS // 2)
