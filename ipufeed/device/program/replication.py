"""How many copies of a program a device runs.

A device of several IPUs runs as many copies, or replicas, of a program as fit: IPUs divided
by shards, where the shards are the IPUs that one copy is spread over (by scopes.ipu_shard,
or as the stages of a pipeline).

Source: the rule, and the words of its error, are the original's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ipufeed.device.log import LOGGER
from ipufeed.device.program.sharding import number_of_shards
from ipufeed.device.system.system import require_usable
from ipufeed.device.system.virtual_device import VirtualDevice


def replication_factor(num_ipus: int, shards: int) -> int:
    """Copies of a program on a device.

    Args:
        num_ipus: IPUs of the device.
        shards: IPUs that one copy needs.

    Raises:
        tf.errors.InternalError: The shards do not divide the IPUs.
    """
    if num_ipus % shards == 0:
        return num_ipus // shards
    from tensorflow.python.framework import errors

    raise errors.InternalError(
        None,
        None,
        f"Trying to compile a graph for an IPU device with {num_ipus} IPUs and {shards} "
        "shards. The number of shards needs to divide the number of IPUs. "
        "`auto_select_ipus` sets the IPUs of the device; the shards are the highest index "
        "given to `ipu_shard`, plus 1, or as many as hold the `device_mapping` of a "
        "pipeline, rounded up to a power of two.",
    )


def refuse_replicas(ordinal: int, operations: Iterable[Any]) -> None:
    """These ops are a program that TensorFlow's executor runs, which does so once.

    Raises:
        tf.errors.UnimplementedError: There are IPUs for several copies.
        tf.errors.InternalError: See replication_factor.
    """
    num_ipus = require_usable(ordinal).num_ipus
    if num_ipus == 1:
        return
    shards = number_of_shards(operations)
    if replication_factor(num_ipus, shards) == 1:
        return
    from tensorflow.python.framework import errors

    raise errors.UnimplementedError(
        None,
        None,
        "TensorFlow's executor runs one copy of a program (that is what "
        "set_executor('tensorflow') and outside_compilation_scope ask for), and "
        f"/device:IPU:{ordinal} has {num_ipus} IPUs for {num_ipus // shards} copies. "
        f"Set `auto_select_ipus` to {shards}, or have the program compiled.",
    )


def replicate(device: VirtualDevice, shards: int) -> int:
    """The same for a device on which a program is about to be compiled; logs it.

    Raises:
        tf.errors.InternalError: See replication_factor.
    """
    factor = replication_factor(device.num_ipus, shards)
    if factor == 1:
        return 1
    LOGGER.info(
        "Automatically replicating the TensorFlow model by a factor of %d.", factor
    )
    return factor
