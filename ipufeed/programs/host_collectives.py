"""What processes exchange on the host, as ipu.distributed and Horovod have it.

Alone a process has its own values. Between several, programs exchange tensors on the IPU:
`cross_replica_ops.cross_replica_sum`, with a configuration of several processes.
"""

from __future__ import annotations

from typing import Any

from ipufeed.errors import RefusedError
from ipufeed.programs import popdist


def init() -> None:
    """Does nothing: processes meet when they are configured."""


def size() -> int:
    """How many processes there are."""
    return popdist.getNumInstances()


def rank() -> int:
    """The number of this process, from 0."""
    return popdist.getInstanceIndex()


def local_size() -> int:
    """How many processes of this machine there are: all are counted."""
    return size()


def local_rank() -> int:
    """The number of this process on its machine."""
    return rank()


def _alone(name: str) -> None:
    """Raises RefusedError in one of several processes."""
    if size() == 1:
        return
    raise RefusedError(
        f"{name} does not exchange values on the host between processes: use "
        "cross_replica_ops.cross_replica_sum or cross_replica_mean in the program, with "
        "experimental.multi_replica_distribution.process_count."
    )


def allreduce(value: Any, reduce_op: Any = None, tensor_name: str | None = None) -> Any:
    """The sum or mean over processes: alone the value.

    Raises:
        RefusedError: There are several.
    """
    import tensorflow as tf

    del reduce_op
    _alone("allreduce")
    return tf.identity(value, name=tensor_name)


def allgather(value: Any, tensor_name: str | None = None) -> Any:
    """The values of all processes, [processes, *shape]: alone one.

    Raises:
        RefusedError: There are several.
    """
    import tensorflow as tf

    _alone("allgather")
    return tf.expand_dims(value, 0, name=tensor_name)


def broadcast(value: Any, root_rank: int = 0, tensor_name: str | None = None) -> Any:
    """The value of one process: alone its own.

    Raises:
        RefusedError: There are several.
    """
    import tensorflow as tf

    del root_rank
    _alone("broadcast")
    return tf.identity(value, name=tensor_name)
