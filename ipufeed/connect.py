"""Connects ipufeed's packages at import; none of them imports this module.

queues            <- device.queue_hooks: the queues' questions about the device
device.queue_hooks <- parallel: collectives between processes, loaded at first use
TensorFlow        <- executable: compiled programs, loaded with the first one
TensorFlow        <- tf_patches: queue operations in tf.vectorized_map;
                     assertions; datasets in an IPU's scope, and of generators; image
                     operations that XLA lacks
TensorFlow        <- device.program: its loops as training loops
ops.host_calls    <- ops, programs: functions of the host that programs from files call
TensorFlow        <- applications: the operations of exported SavedModels
IPUStrategy       <- keras: models; parallel: reductions over replicas
"""

from __future__ import annotations

import functools

from ipufeed import _native
from ipufeed.applications import saved_calls
from ipufeed.device import queue_hooks
from ipufeed.device.program import plain_loops, strategy
from ipufeed.device.random.ops import on_ipu
from ipufeed.executable.compile import handler
from ipufeed.once import once
from ipufeed.ops.host_calls import set_loader
from ipufeed.queues.chain import is_one_program, put_token, take_token
from ipufeed.queues.chained_ops import holds_queue_ops
from ipufeed.tf_patches import (
    asserts,
    generator_state,
    host_datasets,
    projective,
    resize_gradient,
    vectorized_map,
)
from ipufeed.tf_types import Operation, Tensor


def _join_processes(count: int, index: int) -> None:
    """Makes this process one of the group that runs replicas of its programs."""
    from ipufeed.parallel.collectives import joining

    joining.join(count, index)


@once
def _extend_keras() -> None:
    """Patches the Keras in use to run models on IPUs."""
    from ipufeed.keras.install import install

    install()


def _reduce_over_replicas(value: Tensor, mean: bool) -> Tensor:
    """Builds the sum or mean of a tensor over a program's replicas."""
    from ipufeed.parallel.collectives import ops

    return ops.cross_replica_mean(value) if mean else ops.cross_replica_sum(value)


def _last_token() -> Tensor | None:
    """Returns the token of the program's last queue call; None outside of a program."""
    return take_token() if is_one_program() else None


def _build_check(condition: Tensor, text: str) -> Operation:
    """Builds the op that ends a compiled program if a condition does not hold.

    It keeps its place in the order of the program's queue calls.
    """
    last = _last_token()
    token = _native.load().ipufeed_assert(
        condition, 0 if last is None else last, text=text
    )
    if last is not None:
        put_token(token)
    return token.op


def _load_host_functions() -> None:
    """Imports the modules with functions that programs call on the host."""
    # By a name of each: `import ipufeed` makes some of them lazy modules.
    from ipufeed.ops.host_embedding import HostEmbedding  # noqa: F401
    from ipufeed.ops.internal_ops import print_tensor  # noqa: F401
    from ipufeed.programs.accumulated_uses import check  # noqa: F401


@functools.cache
def connect() -> None:
    """Connects the packages, once."""
    queue_hooks.set_join(_join_processes)
    handler.install()
    saved_calls.install()
    vectorized_map.refuse(holds_queue_ops)
    asserts.install(on_ipu, _build_check, _last_token)
    host_datasets.install(on_ipu)
    generator_state.install()
    projective.install(on_ipu)
    resize_gradient.install(on_ipu)
    plain_loops.install()
    set_loader(_load_host_functions)
    strategy.hooks.extend_keras = _extend_keras
    strategy.hooks.reduce = _reduce_over_replicas
