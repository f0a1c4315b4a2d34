"""What iterating through the feeder and the ring costs, against the floor."""

import operator
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchmarks import pipelines
from benchmarks.iterate import bare, loop, run_op, through
from benchmarks.targets import Row, comparison, row

LESS_CPU = 15


def rows(quick: bool) -> list[Row]:
    """Measures each kind of elements; TensorFlow runs in this process."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    repeats = 3 if quick else 11
    return [
        *tiny(repeats, 20_000 if quick else 100_000),
        *alternating(repeats, 3000),
        *sized("large (32x224x224x3)", pipelines.large(), repeats, 100),
        *records(repeats, 2000),
        *waiting(repeats),
        ends(repeats),
    ]


def tiny(repeats: int, elements: int) -> list[Row]:
    """Measures elements of 4x4 float32 against a Python loop and the bare loop."""
    dataset = pipelines.tiny()
    ours, floor, python = [], [], []
    for _ in range(repeats):
        ours.append(through(dataset, elements))
        floor.append(bare(dataset, elements))
        python.append(loop(dataset, elements // 20))
    loops = [cost.cpu for cost in python]
    what = "tiny elements: less CPU than `for x in dataset`"
    less = ("x", operator.truediv, loops)
    found = comparison(what, "at least", LESS_CPU, *less, [cost.cpu for cost in ours])
    bare_loop = comparison(
        "    the bare loop, as much less", "", 0, *less, [cost.cpu for cost in floor]
    )
    return [
        # Python's and the bare loop's costs have another ratio on each machine.
        replace(found, slack=max(1.0, LESS_CPU / bare_loop.median)),
        bare_loop,
        comparison(
            "tiny elements: time above a bare C++ GetNext loop",
            "at most",
            1,
            "us",
            operator.sub,
            [cost.wall * 1e6 for cost in ours],
            [cost.wall * 1e6 for cost in floor],
        ),
        row("    the bare loop", "", 0, "us", [cost.wall * 1e6 for cost in floor]),
    ]


@contextmanager
def one_cpu() -> Iterator[None]:
    """Keeps this thread, and those that it starts, on one CPU."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(usable)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def alternating(repeats: int, elements: int) -> list[Row]:
    """Measures the medium size, whose iterator and function run in two threads.

    Each waits for the other. On two CPUs the kernel's placement of them, which holds
    for thousands of elements, decides: 14 us an element or 23, on both sides.
    """
    name, dataset = "medium (32x28x28x1)", pipelines.medium()
    with one_cpu():
        found = sized(f"{name}, on one CPU", dataset, 3 * repeats, elements)
    placed = sized(name, dataset, 3 * repeats, elements)[0]
    what = "    the same, on all CPUs"
    return [*found, replace(placed, what=what, reach=0, sense="")]


def sized(name: str, dataset: Any, repeats: int, elements: int) -> list[Row]:
    """Measures a real size, against the bare loop; the copy is reported apart."""
    ours, floor, copies = [], [], []
    for _ in range(repeats):
        ours.append(through(dataset, elements).wall * 1e6)
        floor.append(bare(dataset, elements).wall * 1e6)
        copies.append(through(dataset, elements, copy=True).copy * 1e6)
    return [
        comparison(
            f"{name}: time against the bare loop",
            "at most",
            1.05,
            "x",
            operator.truediv,
            ours,
            floor,
        ),
        row("    the bare loop", "", 0, "us", floor),
        row("    the copy, where it is on", "", 0, "us", copies),
    ]


def records(repeats: int, elements: int) -> list[Row]:
    """Measures a reader of records, alone and with a prefetch after it."""
    alone = pipelines.records()
    ours, drained = [], []
    for _ in range(repeats):
        ours.append(through(alone, elements).wall)
        drained.append(bare(alone.prefetch(16), elements).wall)
    what = "100 KB records: time against draining a prefetch of them"
    arguments = ("x", operator.truediv, ours, drained)
    return [
        comparison(what, "at least", 0.85, *arguments),
        comparison("    the same, from above", "at most", 1.15, *arguments),
    ]


# Apart, in a process of its own: what it counts is the CPU time of a whole process.
_WAITING = """
import ipufeed
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from benchmarks.iterate import bare, run_op
dataset = tf.data.Dataset.range(1).repeat().apply(testing.sleep(1000))
run_op(dataset, seconds_ns=10**8)
for _ in range({repeats}):
    counters, _ = run_op(dataset, seconds_ns=10**9)
    ours = counters["cpu_ns"] / (counters["last_ns"] - counters["first_ns"])
    floor = bare(dataset, 900)
    print(ours, floor.cpu / floor.wall)
"""


def waiting(repeats: int) -> list[Row]:
    """Measures the CPU time of waiting for a producer of 1 ms per element."""
    done = subprocess.run(
        [sys.executable, "-c", _WAITING.format(repeats=repeats)],
        check=True,
        capture_output=True,
        text=True,
    )
    numbers = [100 * float(number) for number in done.stdout.split()]
    ours, floor = numbers[::2], numbers[1::2]
    return [
        comparison(
            "1 ms per element: CPU used while waiting, of one core",
            "at most",
            5,
            "%",
            operator.sub,
            ours,
            floor,
        ),
        row(
            "    the whole process, the dataset's own threads included",
            "",
            0,
            "%",
            ours,
        ),
    ]


def ends(repeats: int) -> Row:
    """Measures the longest of ten ends; AUTOTUNE's thread begins to sleep 0.32 s then."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 4])).repeat().batch(10)
    longest = []
    for _ in range(repeats):
        taken = []
        for number in range(10):
            seconds = 0.302 + 0.002 * number
            counters, _ = run_op(dataset, seconds_ns=round(seconds * 1e9))
            taken.append((time.monotonic_ns() - counters["finished_ns"]) / 1e6)
        longest.append(max(taken))
    what = "a run of 0.3 s, from its last element to the op's return, longest of ten"
    return row(what, "at most", 50, "ms", longest)
