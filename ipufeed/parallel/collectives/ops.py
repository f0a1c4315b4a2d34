"""Collectives between the replicas of a program, while it runs.

    mean = cross_replica_mean(gradient)          the same bits on every replica
    index = replication_index()                  0, 1, ...: the number of this replica

Every replica must execute the same collectives in the same order: whether one is executed
must not depend on a value that differs between replicas, such as the index. If a
replica ends while others wait for it, the program fails with a tf.errors.InternalError.
Reductions are computed in the order of the replicas, so that results are reproducible. In a
program that is not replicated, and in eager mode, there is one replica: collectives return
their input.

Source: names, arguments and shapes are those of Graphcore's cross_replica_ops,
replication_ops, all_to_all_op and reduce_scatter_op.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import ops

from ipufeed import _native
from ipufeed.checks import flags_checked, numbers_in, shape_with_room
from ipufeed.no_effect import no_effect
from ipufeed.once import once
from ipufeed.parallel.collectives.arguments import (
    dimension,
    fixed_tensor,
    group_size,
    number_tensor,
    optional_group,
)
from ipufeed.queues.chain import put_token, take_token
from ipufeed.tf_types import Nest, Operation, Tensor


class Collective(enum.IntEnum):
    """Collective of ipufeed/cc/replicas/replicas.h."""

    REDUCE = 0
    MEAN = 1
    GATHER = 2
    REDUCE_SCATTER = 3
    ALL_TO_ALL = 4


# Graphcore's names -> Reduction of cc/replicas/replicas.h; whether the sum is divided.
REDUCTIONS = {
    "COLLECTIVE_OP_ADD": (0, False),
    "COLLECTIVE_OP_MEAN": (0, True),
    "COLLECTIVE_OP_MUL": (1, False),
    "COLLECTIVE_OP_MIN": (2, False),
    "COLLECTIVE_OP_MAX": (3, False),
}

FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64")


def cross_replica_sum(
    x: Tensor, replica_group_size: int | None = None, name: str | None = None
) -> Tensor:
    """Sums a tensor over the replicas (all-reduce); all get the same bits.

    Args:
        x: A tensor of a float or of int32 or int64. Floats of 16 bits are summed in 32.
        replica_group_size: The size of the groups of consecutive replicas (0 to n-1, n to
            2n-1, ...) that are summed separately. Default: None, as 0: one group of all
            replicas of all processes.
        name: The name of the op.

    Returns:
        A tensor like x.

    Raises:
        TypeError: Another dtype.
        ValueError: The group is not an integer, or negative.
        tf.errors.InvalidArgumentError: When it runs: it does not divide the replicas.
        tf.errors.UnimplementedError: When it runs: it spans some of the processes.
    """
    group = optional_group(replica_group_size, "replica_group_size")
    (total,) = collective(
        [number_tensor(x, NUMBERS)], Collective.REDUCE, group=group, name=name
    )
    return total


def cross_replica_mean(
    x: Tensor, replica_group_size: int | None = None, name: str | None = None
) -> Tensor:
    """Averages a tensor over the replicas (all-reduce); all get the same bits.

    Args:
        x: A tensor of a float.
        replica_group_size: See cross_replica_sum.
        name: The name of the op.

    Returns:
        A tensor like x.

    Raises:
        TypeError, ValueError, tf.errors.OpError: See cross_replica_sum.
    """
    group = optional_group(replica_group_size, "replica_group_size")
    return collective(
        [number_tensor(x, FLOATS)], Collective.MEAN, group=group, name=name
    )[0]


def cross_replica_means(tensors: list[Tensor]) -> list[Tensor]:
    """Averages several tensors over the replicas, in one collective."""
    if not tensors:
        return []
    return collective(
        [number_tensor(each, FLOATS) for each in tensors], Collective.MEAN
    )


@flags_checked
def assume_equal_across_replicas(tensors: Nest, inplace: bool = False) -> Nest:
    """Returns the tensors, of which the caller asserts that all replicas have the same.

    Args:
        tensors: A structure of tensors.
        inplace: Whether an IPU would omit the copy. No effect here, with a warning.

    Returns:
        The tensors, in the same structure.

    Raises:
        TypeError: One is of text.
    """
    if inplace:
        no_effect("assume_equal_across_replicas(inplace=)", "XLA decides what to copy")
    tensors = numbers_in("tensors", tensors)
    return tf.nest.map_structure(tf.identity, tensors, expand_composites=True)


def all_gather(x: Nest, replication_factor: int, name: str | None = None) -> Nest:
    """Gathers the tensors of all replicas, in their order, on each (all-gather).

    Args:
        x: A tensor of a defined shape, or a nest of tensors.
        replication_factor: The number of replicas; a smaller number is the size of the
            groups of consecutive replicas that gather separately.
        name: The name of the op.

    Returns:
        [replication_factor, *x.shape]; of several tensors a list.

    Raises:
        ValueError: The factor is not a positive integer.
        tf.errors.InvalidArgumentError: When it runs: the factor does not divide the
            number of replicas.
    """
    factor = group_size(replication_factor, "replication_factor")
    return _of_each(
        x,
        lambda each: collective(
            [fixed_tensor(each)],
            Collective.GATHER,
            group=factor,
            replicas=factor,
            name=name,
        )[0],
    )


def reduce_scatter(
    x: Nest,
    replication_factor: int,
    op: str = "COLLECTIVE_OP_ADD",
    name: str | None = None,
) -> Nest:
    """Reduces over the replicas; replica r gets part r of the result (reduce-scatter).

    Args:
        x: A tensor of a defined shape, or a nest of tensors. It is flattened, and padded
            with zeros to a multiple of the factor.
        replication_factor: See all_gather.
        op: COLLECTIVE_OP_ADD, _MEAN, _MUL, _MIN or _MAX.
        name: The name of the op.

    Returns:
        [ceil(elements of x / replication_factor)]; of several tensors a list.

    Raises:
        TypeError: `op` does not reduce the dtype.
        ValueError: The factor is not a positive integer, or `op` is unknown.
        tf.errors.InvalidArgumentError: When it runs: the factor does not divide the
            replicas.
    """
    factor = group_size(replication_factor, "replication_factor")
    if not isinstance(op, str) or op not in REDUCTIONS:
        raise ValueError(f"`op` must be one of {', '.join(REDUCTIONS)}, got {op!r}.")
    reduction, divides = REDUCTIONS[op]

    def scatter(each: Tensor) -> Tensor:
        (part,) = collective(
            [fixed_tensor(number_tensor(each, FLOATS if divides else NUMBERS))],
            Collective.REDUCE_SCATTER,
            reduction=reduction,
            group=factor,
            replicas=factor,
            name=name,
        )
        return part / factor if divides else part

    return _of_each(x, scatter)


def all_to_all(
    x: Tensor,
    split_dimension: int,
    concat_dimension: int,
    number_of_replicas: int,
    name: str | None = None,
) -> Tensor:
    """Sends part r of every tensor to replica r, which concatenates them (all-to-all).

    Args:
        x: A tensor of a defined shape, of at most 253 dimensions.
        split_dimension: The dimension that is split into equal parts, one per replica.
        concat_dimension: The dimension along which the parts are concatenated.
        number_of_replicas: See all_gather's replication_factor.
        name: The name of the op.

    Returns:
        x's shape, with split_dimension divided and concat_dimension multiplied by the
        number of replicas.

    Raises:
        ValueError: x lacks the dimension, or has too many, or it cannot be split.
        tf.errors.InvalidArgumentError: When it runs: the number does not divide the
            replicas.
    """
    value = fixed_tensor(x)
    count = group_size(number_of_replicas, "number_of_replicas")
    shape = shape_with_room(value.shape.as_list(), "x")
    split = dimension(split_dimension, len(shape), "split_dimension")
    concat = dimension(concat_dimension, len(shape), "concat_dimension")
    if shape[split] % count:
        raise ValueError(
            f"The split dimension {split} must be divisible by the {count} replicas, got "
            f"the shape {shape}."
        )
    cut = [*shape[:split], count, shape[split] // count, *shape[split + 1 :]]
    parts = tf.reshape(value, cut)
    axes = [split, *(axis for axis in range(len(cut)) if axis != split)]
    (joined,) = collective(
        [tf.transpose(parts, axes)], Collective.ALL_TO_ALL, group=count, name=name
    )
    # The replicas' axis goes directly before the dimension that it multiplies.
    rest = list(range(1, len(cut)))
    together = tf.transpose(joined, [*rest[:concat], 0, *rest[concat:]])
    result = [*shape]
    result[split] //= count
    result[concat] *= count
    return tf.reshape(together, result)


def replication_index(name: str | None = None) -> Tensor:
    """Returns the number of the replica that runs this, from 0: an int32 scalar."""
    register_gradients()
    return _native.load().ipufeed_replication_index(name=name)


def collective(
    values: list[Tensor],
    kind: Collective,
    *,
    reduction: int = 0,
    group: int = 0,
    replicas: int = 1,
    name: str | None = None,
) -> list[Tensor]:
    """Builds one collective, ordered with the program's queue ops by the token.

    Args:
        values: Tensors.
        kind: Which collective.
        reduction: One of REDUCTIONS.
        group: The replicas of a group; 0 for all.
        replicas: Their number, for the shapes of GATHER and REDUCE_SCATTER.
        name: The name of the op.
    """
    register_gradients()
    results, token = _native.load().ipufeed_collective(
        values,
        take_token(),
        collective=int(kind),
        reduction=reduction,
        group=group,
        replicas=replicas,
        name=name,
    )
    put_token(token)
    return list(results)


@once
def register_gradients() -> None:
    """Registers the gradients of the ops in TensorFlow, once."""
    ops.RegisterGradient("IpufeedCollective")(gradients_of_collective)
    ops.NotDifferentiable("IpufeedReplicationIndex")


def gradients_of_collective(op: Operation, *gradients: Tensor) -> list[Tensor]:
    """Builds the gradient of a collective: the transposed collective of the gradients.

    Raises:
        LookupError: It is a product, minimum or maximum.
    """
    kind = Collective(op.get_attr("collective"))
    group, replicas = op.get_attr("group"), op.get_attr("replicas")
    *inputs, _ = op.inputs
    *coming, _ = gradients
    coming = [
        tf.zeros_like(result) if gradient is None else gradient
        for gradient, result in zip(coming, op.outputs, strict=False)
    ]
    if op.get_attr("reduction") != 0:
        raise LookupError(
            "A collective of replicas has a gradient for sums and means only, not for "
            "products, minima and maxima."
        )
    back = {
        Collective.GATHER: Collective.REDUCE_SCATTER,
        Collective.REDUCE_SCATTER: Collective.GATHER,
    }.get(kind, kind)
    results = collective(coming, back, group=group, replicas=replicas)
    if kind is Collective.REDUCE_SCATTER:  # without the padding
        results = [
            tf.reshape(result, [-1])[: value.shape.num_elements()]
            for result, value in zip(results, inputs, strict=True)
        ]
    if kind in (Collective.GATHER, Collective.REDUCE_SCATTER):
        results = [
            tf.reshape(result, value.shape)
            for result, value in zip(results, inputs, strict=True)
        ]
    return [*results, None]  # the token's


def _of_each(x: Nest, one: Callable[[Tensor], Tensor]) -> Nest:
    """Maps the tensors of a nest to a list; the result alone if there is one tensor."""
    results = [one(each) for each in tf.nest.flatten(x)]
    return results[0] if len(results) == 1 else results
