"""Measures a dataset in the three ways that the targets compare.

    through(dataset, n)   ipufeed's feeder, ring and consumer
    bare(dataset, n)      a C++ GetNext loop on the same finalised dataset
    loop(dataset, n)      `for element in dataset` in Python

Each gives the wall and the CPU time (of the whole process) per element.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Seconds per element."""

    wall: float
    cpu: float
    copy: float = 0.0


def run_op(dataset: Any, **attributes: Any) -> tuple[dict[str, int], Any]:
    """Returns the measuring op's counters, and its stamps in ns."""
    import tensorflow as tf

    from ipufeed import _native

    output = _native.load().ipufeed_measure_dataset(
        dataset._variant_tensor, run=tf.constant(0, tf.int64), **attributes
    )
    names = [name.decode() for name in output.names.numpy()]
    counters = dict(zip(names, output.values.numpy().tolist(), strict=True))
    return counters, output.stamps.numpy()


def through(dataset: Any, elements: int, copy: bool = False) -> Cost:
    """Measures the native op of ipufeed; the wall time leaves out a tenth as a warm-up."""
    warm_up = max(1, elements // 10)
    counters, stamps = run_op(
        dataset, epochs=1, elements_per_epoch=warm_up + elements, copy=copy
    )
    return Cost(
        wall=(stamps[-1] - stamps[warm_up - 1]) / 1e9 / elements,
        cpu=counters["cpu_ns"] / 1e9 / (counters["elements"] - 1),
        copy=counters["copy_ns"] / 1e9 / counters["elements"],
    )


def bare(dataset: Any, elements: int) -> Cost:
    """Measures the yardstick of ipufeed/cc/measure/consumer.h, with the same warm-up."""
    warm_up = max(1, elements // 10)
    counters, _ = run_op(
        dataset, bare=True, warm_up=warm_up, elements_per_epoch=elements
    )
    return Cost(
        wall=(counters["last_ns"] - counters["first_ns"]) / 1e9 / elements,
        cpu=counters["cpu_ns"] / 1e9 / elements,
    )


def timed(call: Callable[[], Any], elements: int) -> Cost:
    """Measures one call, by the number of elements that it takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Cost(
        wall=(time.perf_counter() - wall) / elements,
        cpu=(time.process_time() - cpu) / elements,
    )


def drained(iterator: Iterator[Any], elements: int) -> Cost:
    """Measures a Python loop that takes elements, after a tenth more as a warm-up."""

    def take(count: int) -> None:
        for _ in itertools.islice(iterator, count):
            pass

    take(max(1, elements // 10))
    return timed(lambda: take(elements), elements)


def loop(dataset: Any, elements: int) -> Cost:
    """Measures a plain Python loop, as most benchmark scripts have it."""
    return drained(iter(dataset), elements)
