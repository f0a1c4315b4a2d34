"""Collectives between the shards of one replica: its IPUs, each with a tensor.

    shards = all_reduce([on_ipu_0, on_ipu_1], "COLLECTIVE_OP_ADD")      one sum on each

The result's part i is on the IPU of the input's part i.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from ipufeed.checks import as_int, as_tensor
from ipufeed.device.program.scopes import ipu_shard
from ipufeed.device.program.sharding import get_sharding
from ipufeed.tf_types import Tensor


def all_gather(input_shards: list[Tensor], axis: int = 0) -> list[Tensor]:
    """Returns for each shard the concatenation of all shards' tensors.

    Args:
        input_shards: A tensor of each shard. The elements are concatenated in order,
            independent of the tensors' shapes; for scalars the result is [shards].
        axis: The axis along which the result is longer.

    Returns:
        A list with a tensor for each shard, all equal.

    Raises:
        TypeError: The axis is not an int.
        ValueError: The tensors' dtypes or shapes do not match, or they lack the axis.
        tf.errors.FailedPreconditionError: They are not in the order of their shards.
    """
    shards = _checked(input_shards)
    axis = as_int("axis", axis)
    rank = shards[0].shape.rank
    if rank:
        if not -rank <= axis < rank:
            raise ValueError(
                f"`axis` must be in [{-rank}, {rank - 1}] for tensors of rank {rank}, got "
                f"{axis}."
            )
        axis %= rank
        _check_sizes(shards, axis)
    shape = shards[0].shape.as_list()
    if rank:
        shape[axis] = sum(sizes[axis] for sizes in _sizes(shards))
    else:
        shape = [len(shards)]

    def joined() -> Tensor:
        flat = tf.concat([tf.reshape(each, [-1]) for each in shards], axis=0)
        return tf.reshape(flat, shape)

    return _on_each(shards, lambda _: joined())


def reduce_scatter(input_shards: list[Tensor], op: str) -> list[Tensor]:
    """Returns for each shard a part of the reduction: part i for shard i.

    Args:
        input_shards: A tensor of rank 0 or 1 of each shard, padded with zeros to the
            longest.
        op: See all_reduce.

    Returns:
        A list with ceil(longest / shards) elements for each shard, the last padded with
        zeros.

    Raises:
        ValueError: The tensors do not match, or `op` is unknown.
        tf.errors.FailedPreconditionError: They are not in the order of their shards.
    """
    shards = _checked(input_shards)
    if shards[0].shape.rank > 1:
        raise ValueError(
            f"reduce_scatter takes tensors of rank 0 or 1, got {shards[0].shape}."
        )
    flat = [tf.reshape(each, [-1]) for each in shards]
    rows = [size for (size,) in _sizes(flat)]
    part = math.ceil(max(rows) / len(flat))
    longest = part * len(flat)
    filled = [
        tf.pad(each, [[0, longest - size]])
        for each, size in zip(flat, rows, strict=True)
    ]
    reduce = _reduction(op, filled)
    return _on_each(shards, lambda i: reduce(i)[i * part : (i + 1) * part])


def all_reduce(input_shards: list[Tensor], op: str) -> list[Tensor]:
    """Returns for each shard the reduction of all shards' tensors.

    Args:
        input_shards: A tensor of each shard, of equal shapes.
        op: COLLECTIVE_OP_ADD, _MUL, _MIN, _MAX, _LOGICAL_AND, _LOGICAL_OR, or _LOCAL, the
            shard's own tensor.

    Returns:
        A list with a tensor for each shard.

    Raises:
        ValueError: The tensors do not match, or `op` is unknown.
        tf.errors.FailedPreconditionError: They are not in the order of their shards.
    """
    shards = _checked(input_shards)
    _check_sizes(shards, None)
    return _on_each(shards, _reduction(op, shards))


def _reduction(op: str, shards: list[Tensor]) -> Callable[[int], Tensor]:
    """Returns the function from a shard's number to its result of the reduction."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "COLLECTIVE_OP_ADD": lambda each: tf.reduce_sum(each, 0),
        "COLLECTIVE_OP_MUL": lambda each: tf.reduce_prod(each, 0),
        "COLLECTIVE_OP_MIN": lambda each: tf.reduce_min(each, 0),
        "COLLECTIVE_OP_MAX": lambda each: tf.reduce_max(each, 0),
        "COLLECTIVE_OP_LOGICAL_AND": lambda each: tf.reduce_all(each, 0),
        "COLLECTIVE_OP_LOGICAL_OR": lambda each: tf.reduce_any(each, 0),
    }
    if op == "COLLECTIVE_OP_LOCAL":
        return lambda number: tf.identity(shards[number])
    if op not in functions:
        raise ValueError(
            f"`op` must be one of {', '.join(functions)}, COLLECTIVE_OP_LOCAL, got {op!r}."
        )
    return lambda _: functions[op](tf.stack(shards))


def _on_each(shards: list[Tensor], make: Callable[[int], Tensor]) -> list[Tensor]:
    """Builds the parts of a result, each on the IPU of its input."""
    results = []
    for number, place in enumerate(_places(shards)):
        if place is None:
            results.append(make(number))
        else:
            with ipu_shard(place):
                results.append(make(number))
    return results


def _places(shards: list[Tensor]) -> list[int | None]:
    if tf.executing_eagerly():
        return [None] * len(shards)
    found = [get_sharding(each.op) for each in shards]
    return [each[0] if each else None for each in found]


def _checked(input_shards: list[Tensor]) -> list[Tensor]:
    if not isinstance(input_shards, (list, tuple)):
        raise TypeError(
            "`input_shards` must be a list of tensors, one of each shard, got "
            f"{type(input_shards).__name__}."
        )
    shards = [
        as_tensor(f"input_shards[{index}]", each)
        for index, each in enumerate(input_shards)
    ]
    if not shards:
        raise ValueError("`input_shards` must hold at least one tensor, got none.")
    if len({id(each) for each in shards}) != len(shards):
        raise ValueError("input_shards should not contain any duplicate entries.")
    if len({each.dtype for each in shards}) > 1:
        raise ValueError(
            "Expected tensors to all be of the same type. Got "
            f"{', '.join(each.dtype.name for each in shards)}."
        )
    if len({each.shape.rank for each in shards}) > 1:
        raise ValueError(
            "Expected tensors to all be of the same rank. Got "
            f"{', '.join(str(each.shape) for each in shards)}."
        )
    for each in shards:
        if not each.shape.is_fully_defined():
            raise ValueError(f"The shapes must be fully defined, got {each.shape}.")
    places = [each for each in _places(shards) if each is not None]
    if places != sorted(places):
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "The tensors must be provided in incrementing shard order. Got the shards "
            f"{places}.",
        )
    return shards


def _sizes(tensors: list[Tensor]) -> list[list[int]]:
    """Returns the sizes of the axes; those of a version 1 shape are not numbers."""
    return [tensor.shape.as_list() for tensor in tensors]


def _check_sizes(shards: list[Tensor], axis: int | None) -> None:
    """Raises ValueError unless all sizes except along `axis` are equal."""
    first, *_ = found = _sizes(shards)
    for number, (each, sizes) in enumerate(zip(shards, found, strict=True)):
        same = [
            one == other
            for place, (one, other) in enumerate(zip(first, sizes, strict=True))
            if place != axis
        ]
        if not all(same):
            raise ValueError(
                "Expecting tensor dimensions to all have the same sizes, except for dim "
                f"{axis}, but got shapes {shards[0].shape} and {each.shape} for tensors 0 "
                f"and {number}"
            )
