"""The memory of full rings, by depth and bytes of an element."""

import time
from typing import Any

import numpy as np

from benchmarks import feeds
from benchmarks.peers import number
from benchmarks.scaling import Axis, Curve, size
from benchmarks.scaling.apart import apart
from benchmarks.soak import rss_bytes

MIB = 1 << 20
ABOUT = """An infeed reads ahead until its ring is full, of elements that each have memory
of their own; no program takes any. The list holds as many tensors of the same dataset: what
it takes beyond their bytes is TensorFlow's allocation. Measured is by how much the resident
memory of the process has grown, each time in a new process in which another, small infeed
has worked before. The bytes that are held are depth x bytes of an element,
and 256 MiB at most."""
FULL_S = 60.0
MOST_BYTES = 256 << 20  # that a ring holds, whatever its depth
RING, LIST = "ring", "list"


def measure(quick: bool) -> Axis:
    """Measures all depths at all sizes, and fits a line to each."""
    sizes = (MIB,) if quick else (MIB, 4 * MIB)
    depths = (1, 128) if quick else (1, 16, 64, 255)
    points = [
        (way, depth, each)
        for each in sizes
        for depth in depths
        for way in (RING, LIST)
        if depth * each <= MOST_BYTES
    ]
    grown: dict[tuple[str, int, int], list[float]] = {point: [] for point in points}
    for _ in range(1 if quick else 3):
        for point in points:
            grown[point].append(apart(grown_bytes, *point) / MIB)
    curves = [
        Curve(
            f"{way} of {size(each)}",
            "memory",
            "MiB",
            {
                depth * each: tuple(grown[way, depth, each])
                for depth in depths
                if (way, depth, each) in grown
            },
        )
        for way in (RING, LIST)
        for each in sizes
    ]
    return Axis(
        "Memory of a ring",
        ABOUT,
        "bytes of depth x element",
        curves,
        findings=[fitted(curves, RING), fitted(curves, LIST)],
    )


def fitted(curves: list[Curve], way: str) -> str:
    """Returns the least-squares line through all medians of a way, as a sentence."""
    ours = [curve for curve in curves if curve.what.startswith(way)]
    pairs = [(x / MIB, curve.median(x)) for curve in ours for x in curve.xs]
    held, grown = np.array(pairs).T
    slope, constant = np.polyfit(held, grown, 1)
    worst = float(np.max(np.abs(grown - slope * held - constant)))
    return (
        f"{way}: the line through all medians is {slope:.3f} x depth x bytes of an "
        f"element {'-' if constant < 0 else '+'} {number(abs(constant))} MiB; no median "
        f"is further off than {number(worst)} MiB."
    )


def grown_bytes(way: str, depth: int, element_bytes: int) -> int:
    """Fills a ring or a list in this process; by how many bytes the process has grown.

    Raises:
        TimeoutError: The ring is not full after a minute.
    """
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    fill(4, 64)
    listed = [list(distinct_elements(64).take(4))]
    before = rss_bytes()
    if way == RING:
        fill(depth, element_bytes)
    else:
        listed.append(list(distinct_elements(element_bytes).take(depth)))
    return rss_bytes() - before


def distinct_elements(element_bytes: int) -> Any:
    """Returns a dataset whose elements share no memory."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.range(10**12).map(
        lambda i: tf.fill([element_bytes // 4], tf.cast(i, tf.float32))
    )
    return dataset.with_options(options)


def fill(depth: int, element_bytes: int) -> None:
    """Waits until an infeed has read ahead all that its ring takes; it stays."""
    queue = feeds.infeed(distinct_elements(element_bytes), prefetch_depth=depth)
    queue.read_ahead()
    deadline = time.monotonic() + FULL_S
    while queue.stats().filled < depth:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"The ring must have {depth} elements after {FULL_S:g} s, got "
                f"{queue.stats().filled}: the machine is too busy to measure."
            )
        time.sleep(0.01)
    time.sleep(0.2)  # the next element, which the feeder holds
