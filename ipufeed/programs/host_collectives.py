"""Collectives of processes on the host: the interface of ipu.distributed.

    process 0: value --+                                +--> [value of 0, value of 1]
    process 1: value --+-- a sum over all replicas  ----+--> the same bits

Each process puts its value into its row of a tensor of zeros, and a program on the IPU sums
these (parallel/collectives): the error of its peers names a process that has ended or
failed. All processes call the same functions in the same order, which is that of one
Session.run, too. Without peers the functions return the process's own values.
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.ops import control_flow_util

from ipufeed.checks import as_int, as_tensor
from ipufeed.device.program import compiler
from ipufeed.device.system import system
from ipufeed.parallel.collectives.ops import cross_replica_sum, replication_index
from ipufeed.programs import popdist
from ipufeed.tf_types import DType, Graph, Tensor, TensorLike

# Dtypes that are summed directly; other numbers are cast to int32 for the sum.
_SUMMED = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
_SIZES = 13  # of a shape that peers are sent
_CAST = ("bool", "int8", "uint8", "int16", "uint16")
# The number of a collective, at its ops in a version 1 graph.
_NUMBER_ATTR = "_ipufeed_collective"


def size() -> int:
    """Returns the number of processes."""
    return popdist.getNumInstances()


def rank() -> int:
    """Returns the index of this process, from 0."""
    return popdist.getInstanceIndex()


def allgather(value: TensorLike, tensor_name: str | None = None) -> Tensor:
    """Returns the values of all processes, stacked.

    Args:
        value: A tensor of numbers or bools, of the same shape and dtype in all processes.
        tensor_name: The result's name.

    Returns:
        [processes, *shape], the same in all processes.

    Raises:
        TypeError: Another dtype.
        tf.errors.FailedPreconditionError: The IPUs are not configured for the processes of
            TF_CONFIG.
        tf.errors.InvalidArgumentError: The processes have different shapes or dtypes, in
            eager mode; the message lists them, and the processes remain in step.
        tf.errors.OpError: A peer has ended or failed, or calls another function.

    Threads: any, one at a time; all processes in the same order.

    Source: Graphcore's function of this name, which uses MPI.
    """
    value = _checked(value)
    if size() == 1:
        return tf.expand_dims(value, 0, name=tensor_name)
    _check_configured()
    passed = tf.cast(value, tf.int32) if value.dtype.name in _CAST else value
    return tf.cast(_gather(passed), value.dtype, name=tensor_name)


def allreduce(
    value: TensorLike, reduce_op: Any = None, tensor_name: str | None = None
) -> Tensor:
    """Returns the sum or mean of a tensor over the processes, the same bits in all.

    Args:
        value: See allgather; not a bool.
        reduce_op: A tf.distribute.ReduceOp. Default (None): SUM. MEAN is the sum divided
            by the number of processes, in the dtype.
        tensor_name: The result's name.

    Returns:
        A tensor like `value`.

    Raises:
        ValueError: Another `reduce_op`.
        TypeError, tf.errors.OpError: See allgather.
    """
    kinds = tf.distribute.ReduceOp
    if reduce_op not in (None, kinds.SUM, kinds.MEAN):
        raise ValueError(
            f"Unsupported reduce op: {reduce_op}. Give tf.distribute.ReduceOp.SUM or MEAN."
        )
    value = _checked(value)
    if value.dtype == tf.bool:
        raise TypeError("bools are not summed: cast them to int32.")
    if size() == 1:
        return tf.identity(value, name=tensor_name)
    rows = allgather(value)
    # Row by row: all processes must round in the same order.
    total = functools.reduce(tf.add, tf.unstack(rows, size()))
    if reduce_op == kinds.MEAN:
        number = tf.cast(size(), total.dtype)
        total = total / number if total.dtype.is_floating else total // number
    return tf.identity(total, name=tensor_name)


def broadcast(
    value: TensorLike, root_rank: int = 0, tensor_name: str | None = None
) -> Tensor:
    """Returns the value of one process in all processes.

    Args:
        value: See allgather.
        root_rank: The process. Default: 0. Graphcore's always uses process 0.
        tensor_name: The result's name.

    Returns:
        A tensor like `value`.

    Raises:
        ValueError: The process does not exist.
        TypeError: `root_rank` is not an int.
        TypeError, tf.errors.OpError: See allgather.
    """
    value, root_rank = _checked(value), as_int("root_rank", root_rank)
    if not 0 <= root_rank < size():
        raise ValueError(
            f"`root_rank` must be the number of one of {size()} processes, got "
            f"{root_rank}."
        )
    if size() == 1:
        return tf.identity(value, name=tensor_name)
    return tf.identity(allgather(value)[root_rank], name=tensor_name)


def _checked(value: TensorLike) -> Tensor:
    """Returns a collective's value as a tensor.

    Raises:
        TypeError: Collectives do not take its dtype.
    """
    value = as_tensor("value", value)
    if value.dtype.name not in (*_SUMMED, *_CAST):
        raise TypeError(
            "Collectives between processes take tensors of "
            f"{', '.join((*_SUMMED, *_CAST))}, got {value.dtype.name}: use tf.cast, or "
            "create a variable that has another dtype outside of the strategy's scope."
        )
    return value


def _check_configured() -> None:
    """Raises FailedPreconditionError unless the IPUs are configured for the processes."""
    distribution = system.configured().experimental.multi_replica_distribution
    known = (distribution.process_count, distribution.process_index)
    if known != (size(), rank()):
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"In TF_CONFIG this is process {rank()} of {size()}, and the IPUs are "
            "configured for "
            + (f"process {known[1]} of {known[0]}" if known[0] else "one process")
            + ": call popdist.tensorflow.set_ipu_config(config), or the strategy's "
            "update_ipu_config(config), before config.configure_ipu_system().",
        )


def _gather(value: TensorLike) -> Tensor:
    """Gathers the values in a separate program, or in the one that is being built."""
    replicas = system.require_usable(0).num_ipus
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph):
        return _rows(value, replicas)
    if graph is None:
        _check_equal_shapes(value, replicas)
    with contextlib.ExitStack() as stack:
        if graph is not None:
            # A variable's initial value is colocated with the variable.
            if "_class" in graph._attr_scope_map:
                stack.enter_context(graph._attr_scope({"_class": None}))
            stack.enter_context(graph.colocate_with(None, ignore_existing=True))
        with tf.device("/device:IPU:0"):
            if graph is None or graph.building_function:
                shape = None if value.shape.rank is None else tuple(value.shape)
                gathered = _program(value.dtype, shape, replicas)(value)
            else:
                stack.enter_context(_numbered(graph))
                (gathered,) = compiler.compile(lambda x: _rows(x, replicas), [value])
        with tf.device("/device:CPU:0"):
            return tf.identity(gathered)


@contextlib.contextmanager
def _numbered(graph: Graph) -> Iterator[None]:
    """Numbers the ops of a collective of a version 1 graph, in the order of its calls.

    The collectives of one Session.run have this order in all processes (order_collectives
    in cc/xla/clusters). Not those in a loop or a branch, which run with it.
    """
    if graph._get_control_flow_context() is not None:
        yield
        return
    number = attr_value_pb2.AttrValue(i=len(graph.get_operations()))
    with graph._attr_scope({_NUMBER_ATTR: number}):
        yield


def _check_equal_shapes(value: Tensor, replicas: int) -> None:
    """Raises InvalidArgumentError in all processes unless they have the same shape.

    A sum of another number of elements would end the group.
    """
    sizes = value.shape.as_list()
    digest = zlib.crc32(repr(sizes).encode()) >> 1  # of sizes that have no place
    shown = (sizes + [0] * _SIZES)[:_SIZES]
    own = tf.constant([value.dtype.as_datatype_enum, len(sizes), digest, *shown])
    with tf.device("/device:IPU:0"):
        found = _program(own.dtype, tuple(own.shape), replicas)(own).numpy()
    if (found == found[0]).all():
        return
    each = "; ".join(
        f"process {number} has {tf.dtypes.as_dtype(dtype).name} "
        f"{shape[: min(rank, _SIZES)].tolist()}{'...' if rank > _SIZES else ''}"
        for number, (dtype, rank, _, *rest) in enumerate(found)
        for shape in [np.array(rest)]
    )
    raise tf.errors.InvalidArgumentError(
        None,
        None,
        "A collective of processes takes tensors of one shape and dtype, and "
        f"{each}. Pad them to one shape: allgather() of the sizes gives the largest.",
    )


@functools.lru_cache(256)
def _program(dtype: DType, shape: tuple[int, ...] | None, replicas: int) -> Tensor:
    def host_collective(value: TensorLike) -> Tensor:
        return _rows(value, replicas)

    # A name for each program: several of one name are reported as compiled again.
    sizes = "any" if shape is None else "x".join(map(str, shape)) or "scalar"
    host_collective.__name__ = f"host_collective_{dtype.name}_{sizes}"
    return tf.function(
        host_collective,
        jit_compile=True,
        autograph=False,
        input_signature=[tf.TensorSpec(shape, dtype)],
    ).get_concrete_function()  # TensorFlow warns of many traces of one function


def _rows(value: TensorLike, replicas: int) -> Tensor:
    """Builds the sum of all processes' tensors with one row each."""
    index = replication_index()
    rows = tf.range(size())
    # Only the first replica of each process: the others have the same value.
    # Not `==`, which compares objects in version 1 graphs.
    is_mine = tf.equal(rows, index // replicas) & tf.equal(index % replicas, 0)
    ones = tf.ones_like(tf.shape(value))  # known when the program is compiled
    mask = tf.reshape(is_mine, tf.concat([[-1], ones], axis=0))
    return cross_replica_sum(tf.where(mask, value[None], tf.zeros_like(value)[None]))
