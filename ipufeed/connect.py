"""Connects the packages when ipufeed is imported; none of them imports this module.

queues            <- device.queue_hooks: what the queues ask of the device
device.queue_hooks <- parallel: the collectives between processes, loaded at their first use
TensorFlow        <- executable: the compiled programs
TensorFlow        <- tf_patches: what tf.vectorized_map makes of queue operations;
                     assertions; what XLA does not have of Keras's layers for images
TensorFlow        <- applications: the operations that a SavedModel has
IPUStrategy       <- keras: what its models do; parallel: the sums over replicas
"""

from __future__ import annotations

import functools
from typing import Any

from ipufeed import _native
from ipufeed.applications import saved_calls
from ipufeed.device import queue_hooks
from ipufeed.device.program import strategy
from ipufeed.device.random.ops import on_ipu
from ipufeed.executable.compile import programs
from ipufeed.queues.chain import holds_queue_ops
from ipufeed.tf_patches import asserts, vectorized_map


def join_processes(count: int, index: int) -> None:
    """Makes this process a member of a group, in which each runs copies of its programs."""
    from ipufeed.parallel.collectives import processes

    processes.join(count, index)


def extend_keras() -> None:
    """Changes the Keras that is in use, so that models run on IPUs."""
    from ipufeed.keras.install import install
    from ipufeed.tf_patches import projective

    install()
    projective.install(on_ipu)


def reduce_over_replicas(value: Any, mean: bool) -> Any:
    """Builds the sum, or the mean, of a tensor over the replicas of a program."""
    from ipufeed.parallel.collectives import ops

    return ops.cross_replica_mean(value) if mean else ops.cross_replica_sum(value)


def build_check(condition: Any, text: str) -> Any:
    """Builds the op that ends a compiled program unless a condition holds."""
    return _native.load().ipufeed_assert(condition, text=text)


@functools.cache
def connect() -> None:
    """Connects them, once."""
    queue_hooks.set_join(join_processes)
    programs.install()
    saved_calls.install()
    vectorized_map.refuse(holds_queue_ops)
    asserts.install(on_ipu, build_check)
    strategy.hooks.extend_keras = extend_keras
    strategy.hooks.reduce = reduce_over_replicas
