"""The number of a program's replicas on a device.

A device of several IPUs runs IPUs / shards copies, or replicas, of a program. The shards
are the IPUs of one copy (by scopes.ipu_shard, or the stages of a pipeline).

Source: the rule, and the text of its error, are Graphcore's.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow.python.framework import errors

from ipufeed.device.log import LOGGER
from ipufeed.device.program.sharding import number_of_shards
from ipufeed.device.system.system import require_usable
from ipufeed.device.system.virtual_device import VirtualDevice
from ipufeed.tf_types import Operation


def replication_factor(num_ipus: int, shards: int) -> int:
    """Returns the number of copies of a program on a device.

    Args:
        num_ipus: The IPUs of the device.
        shards: The IPUs of one copy.

    Raises:
        tf.errors.InternalError: The shards do not divide the IPUs.
    """
    if num_ipus % shards == 0:
        return num_ipus // shards
    raise errors.InternalError(
        None,
        None,
        f"Trying to compile a graph for an IPU device with {num_ipus} IPUs and {shards} "
        "shards. The number of shards needs to divide the number of IPUs. "
        "`auto_select_ipus` sets the IPUs of the device; the shards are the highest index "
        "given to `ipu_shard`, plus 1, or as many as hold the `device_mapping` of a "
        "pipeline, rounded up to a power of two.",
    )


def refuse_replicas(ordinal: int, operations: Iterable[Operation]) -> None:
    """Refuses several copies of a program that TensorFlow's executor runs.

    Raises:
        tf.errors.UnimplementedError: The device has IPUs for several copies.
        tf.errors.InternalError: See replication_factor.
    """
    num_ipus = require_usable(ordinal).num_ipus
    if num_ipus == 1:
        return
    shards = number_of_shards(operations)
    if replication_factor(num_ipus, shards) == 1:
        return
    raise errors.UnimplementedError(
        None,
        None,
        "TensorFlow's executor, which set_executor('tensorflow') and "
        "outside_compilation_scope select, runs one copy of a program, and "
        f"/device:IPU:{ordinal} has {num_ipus} IPUs for {num_ipus // shards} copies. "
        f"Set `auto_select_ipus` to {shards}, or have the program compiled.",
    )


def replicate(device: VirtualDevice, shards: int) -> int:
    """Returns the copies of a program to compile for a device, and logs several.

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
