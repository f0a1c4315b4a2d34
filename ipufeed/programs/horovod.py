"""Collectives of processes with the names and the rules of Horovod: `ipu.horovod`.

    allreduce    the average of the processes' tensors, unless `op` is Sum
    allgather    their rows, one process after the other
    broadcast    the tensor of one process

The collectives are those of host_collectives.py, which have other rules: a sum by default,
and stacked results.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.checks import as_number, as_tensor
from ipufeed.no_effect import no_effect
from ipufeed.programs import host_collectives
from ipufeed.programs.host_collectives import rank, size
from ipufeed.tf_types import Tensor, TensorLike

__all__ = [
    *(
        "Average",
        "Sum",
        "allgather",
        "allreduce",
        "broadcast",
        "init",
        "is_initialized",
    ),
    *("local_rank", "local_size", "rank", "shutdown", "size"),
]

Average = tf.distribute.ReduceOp.MEAN
Sum = tf.distribute.ReduceOp.SUM


def init(comm: Any = None) -> None:
    """Does nothing: processes connect when the system is configured.

    Args:
        comm: No effect, with a warning: the processes are those of TF_CONFIG.
    """
    if comm is not None:
        no_effect("horovod.init(comm=)", "TF_CONFIG names the processes")


def shutdown() -> None:
    """Does nothing: processes disconnect when they end."""


def is_initialized() -> bool:
    """Returns True: there is nothing to initialise."""
    return True


def local_size() -> int:
    """Returns the number of all processes, as if they were on one machine."""
    return size()


def local_rank() -> int:
    """Returns the index of this process, as if all were on one machine."""
    return rank()


def allreduce(
    tensor: TensorLike | tf.IndexedSlices,
    op: tf.distribute.ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor | tf.IndexedSlices:
    """Returns the average or the sum of a tensor over the processes.

    Args:
        tensor: A tensor or variable of numbers, of the same shape and dtype in all
            processes; or slices, whose indices and values are gathered.
        op: Average or Sum. Default (None): Average.
        prescale_factor: What the tensor is multiplied by before; a number. Integers are
            multiplied by a fraction as float64, and rounded towards zero.
        postscale_factor: What the result is multiplied by, likewise.

    Returns:
        A tensor like `tensor`, the same in all processes; of slices, slices.

    Raises:
        ValueError: Another `op`.
        TypeError: A factor is not a number.
        TypeError, tf.errors.OpError: See ipu.distributed.allgather.

    Source: Graphcore's and Horovod's function of this name.
    """
    if op not in (None, Average, Sum):
        raise ValueError(
            f"`op` must be horovod.Average or horovod.Sum, got {op!r}: other reductions "
            "are not there."
        )
    reduce_op = Sum if op == Sum else Average
    prescale_factor = as_number("prescale_factor", prescale_factor)
    postscale_factor = as_number("postscale_factor", postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        values = allgather(_scaled(tensor.values, prescale_factor))
        factor = postscale_factor / (size() if reduce_op == Average else 1)
        indices = allgather(tensor.indices)
        return tf.IndexedSlices(_scaled(values, factor), indices, tensor.dense_shape)
    tensor = _scaled(as_tensor("tensor", tensor), prescale_factor)
    return _scaled(host_collectives.allreduce(tensor, reduce_op), postscale_factor)


def allgather(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Returns the rows of all processes' tensors, in the order of the processes.

    Args:
        tensor: A tensor of numbers or bools, [rows, ...], of the same shape and dtype in
            all processes.
        name: The result's name.

    Returns:
        [processes * rows, ...], the same in all processes.

    Raises:
        ValueError: A scalar.
        TypeError, tf.errors.OpError: See ipu.distributed.allgather.

    Source: Graphcore's and Horovod's function of this name.
    """
    tensor = as_tensor("tensor", tensor)
    if tensor.shape.rank == 0:
        raise ValueError(
            "`tensor` must have rows, got a scalar: give tf.reshape(tensor, [1])."
        )
    gathered = host_collectives.allgather(tensor)
    return tf.concat(tf.unstack(gathered, size()), axis=0, name=name or "allgather")


def broadcast(tensor: TensorLike, root_rank: int, name: str | None = None) -> Tensor:
    """Returns the tensor of one process in all processes.

    Args:
        tensor: A tensor of numbers or bools, of the same shape and dtype in all processes.
        root_rank: The process, from 0.
        name: The result's name.

    Returns:
        A tensor like `tensor`.

    Raises:
        ValueError: The process does not exist.
        TypeError, tf.errors.OpError: See ipu.distributed.allgather.

    Source: Graphcore's and Horovod's function of this name.
    """
    return host_collectives.broadcast(tensor, root_rank, name)


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    if factor == 1.0:
        return tensor
    if not tensor.dtype.is_integer or factor.is_integer():
        return tensor * tf.cast(factor, tensor.dtype)
    return tf.cast(tf.cast(tensor, tf.float64) * factor, tensor.dtype)
