"""What iterating through the feeder and the ring costs, against the floor."""

import subprocess
import sys
from typing import Any

from benchmarks import pipelines
from benchmarks.iterate import bare, loop, through
from benchmarks.targets import Row, row


def rows(quick: bool) -> list[Row]:
    """All of them; TensorFlow runs in this process."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    repeats = 3 if quick else 11
    return [
        *tiny(repeats, 20_000 if quick else 100_000),
        *sized("medium (32x28x28x1)", pipelines.medium(), repeats, 1000),
        *sized("large (32x224x224x3)", pipelines.large(), repeats, 20),
        *records(repeats, 1000),
        waiting(repeats),
    ]


def tiny(repeats: int, elements: int) -> list[Row]:
    """4x4 float32, against a Python loop and against the bare loop."""
    dataset = pipelines.tiny()
    against_loop, above_bare = [], []
    for _ in range(repeats):
        ours = through(dataset, elements)
        floor = bare(dataset, elements)
        python = loop(dataset, elements // 20)
        against_loop.append(python.cpu / ours.cpu)
        above_bare.append((ours.wall - floor.wall) * 1e6)
    return [
        row(
            "tiny elements: less CPU than `for x in dataset`, times",
            "at least",
            15,
            "x",
            against_loop,
        ),
        row(
            "tiny elements: time above a bare C++ GetNext loop",
            "at most",
            1,
            "us",
            above_bare,
        ),
    ]


def sized(name: str, dataset: Any, repeats: int, elements: int) -> list[Row]:
    """A real size, against the bare loop; the copy is reported apart."""
    ratios, copies = [], []
    for _ in range(repeats):
        ours = through(dataset, elements)
        floor = bare(dataset, elements)
        copied = through(dataset, elements, copy=True)
        ratios.append(ours.wall / floor.wall)
        copies.append(copied.copy * 1e6)
    return [
        row(f"{name}: time against the bare loop", "at most", 1.1, "x", ratios),
        row(f"{name}: of which the copy, where it is on", "", 0, "us", copies),
    ]


def records(repeats: int, elements: int) -> list[Row]:
    """A reader whose records must really be read, on its own and behind a prefetch."""
    alone = pipelines.records()
    ratios = []
    for _ in range(repeats):
        ours = through(alone, elements)
        drained = bare(alone.prefetch(16), elements)
        ratios.append(ours.wall / drained.wall)
    low = [1 - abs(1 - ratio) for ratio in ratios]
    return [
        row(
            "100 KB records: time against draining a prefetch of them",
            "at least",
            0.85,
            "x",
            low,
        ),
        row("    (as measured)", "", 0, "x", ratios),
    ]


# Apart, in a process of its own: what it counts is the CPU time of a whole process.
_WAITING = """
import ipufeed
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from benchmarks.iterate import run_op
dataset = tf.data.Dataset.range(1).repeat().apply(testing.sleep(1000))
run_op(dataset, seconds_ns=10**8)
for _ in range({repeats}):
    counters, _ = run_op(dataset, seconds_ns=10**9)
    print(counters["cpu_ns"] / (counters["last_ns"] - counters["first_ns"]))
"""


def waiting(repeats: int) -> Row:
    """A producer of 1 ms per element: everything that the process burns is counted."""
    done = subprocess.run(
        [sys.executable, "-c", _WAITING.format(repeats=repeats)],
        check=True,
        capture_output=True,
        text=True,
    )
    values = [100 * float(line) for line in done.stdout.split()]
    return row(
        "1 ms per element: CPU of the whole process, of one core",
        "at most",
        5,
        "%",
        values,
    )
