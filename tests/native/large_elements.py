"""A case of test_large_elements.py in a process of its own: `large_elements.py CASE`.

Prints JSON. TensorFlow's allocator keeps the room of large tensors until the process ends,
and a later test would find it there: neither the bounds on memory here nor those of other
tests would then mean what they say.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import ipufeed  # noqa: F401  before TensorFlow lists its devices

import tensorflow as tf  # isort: skip
from helpers import rss_bytes, run_op  # isort: skip

from ipufeed.benchmark import Settings, measure

ALL = {"elements_per_epoch": 10**9, "epochs": 1}  # until the dataset ends


def growth(run: Callable[[], Any]) -> tuple[Any, int]:
    """What `run` gives, and by how many bytes at most the process grew during it."""
    before, most = rss_bytes(), 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, rss_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = run()
    done.set()
    watcher.join()
    return found, most - before


def one_tensor(shape: list[int] | None) -> dict[str, Any]:
    """Two elements of 300 MiB, which are the same tensor."""
    elements = [tf.fill([300 << 20], tf.constant(1, tf.uint8))] * 2
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(elements),
        output_signature=tf.TensorSpec(shape, tf.uint8),
    )
    (counters, _), most = growth(lambda: run_op(dataset, **ALL))
    return {**counters, "growth": most}


def many() -> dict[str, Any]:
    """20 elements of 64 MiB, without a prefetch of tf.data's own next to ours."""
    dataset = tf.data.Dataset.range(20).map(lambda x: tf.zeros([1 << 24]) + 1.0)
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    (counters, _), most = growth(lambda: run_op(dataset, **ALL))
    return {**counters, "growth": most}


def capacities() -> dict[str, Any]:
    """Of the feed, as the op and as a measurement give it."""
    found = {}
    for mib in (90, 100):
        element = tf.zeros([mib << 20], tf.uint8)
        dataset = tf.data.Dataset.from_tensors(element).repeat()
        counters, _ = run_op(dataset, epochs=1, elements_per_epoch=3)
        result = measure(dataset, Settings(epochs=1, elements=3))
        assert result.queue is not None
        found[str(mib)] = [counters["capacity"], result.queue["capacity"]]
    return found


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "known": lambda: one_tensor([300 << 20]),
    "unknown": lambda: one_tensor(None),
    "many": many,
    "capacities": capacities,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(CASES[sys.argv[1]]()))
