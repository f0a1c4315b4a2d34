"""Checks of the arguments of collectives: tensors, groups of replicas, dimensions."""

from __future__ import annotations

from ipufeed.checks import as_numbers, is_int
from ipufeed.tf_types import Tensor

MOST_REPLICAS = 2**31 - 1  # what the ops carry; a run compares it with its replicas


def fixed_tensor(x: Tensor) -> Tensor:
    """Converts to a tensor of a fully defined shape.

    Raises:
        ValueError: Its shape is not fully defined.
    """
    value = as_numbers("x", x)
    if not value.shape.is_fully_defined():
        raise ValueError(
            f"A tensor of a collective must have a fully defined shape, got {value.shape}."
        )
    return value


def number_tensor(x: Tensor, dtypes: tuple[str, ...]) -> Tensor:
    """Converts to a tensor of one of these dtypes.

    Raises:
        TypeError: It has another dtype.
    """
    value = as_numbers("x", x)
    if value.dtype.name not in dtypes:
        raise TypeError(
            f"`x` must be of one of the dtypes {', '.join(dtypes)}, got "
            f"{value.dtype.name}: use tf.cast."
        )
    return value


def optional_group(size: int | None, what: str) -> int:
    """Checks an optional group size; returns 0 for None and 0, which mean all replicas.

    Raises:
        ValueError: It is not an integer of at least 0.
    """
    is_all = size is None or (size == 0 and not isinstance(size, bool))
    return 0 if is_all else group_size(size, what)


def group_size(size: object, what: str) -> int:
    """Checks a group size; raises ValueError unless it is a positive int32."""
    if not is_int(size) or size < 1:
        raise ValueError(f"`{what}` must be a positive integer, got {size!r}.")
    if size > MOST_REPLICAS:
        raise ValueError(f"`{what}` must be at most {MOST_REPLICAS}, got {size!r}.")
    return int(size)


def dimension(axis: int, rank: int, what: str) -> int:
    """Checks a dimension; returns it counted from 0 (a negative one is from the end).

    Raises:
        ValueError: It is not an int or is out of range, or the rank is 0.
    """
    if rank == 0:
        raise ValueError(
            f"`x` must have at least one dimension for `{what}`, got a scalar."
        )
    if not is_int(axis) or not -rank <= axis < rank:
        raise ValueError(f"`{what}` must be an int in [{-rank}, {rank}), got {axis!r}.")
    return axis % rank
