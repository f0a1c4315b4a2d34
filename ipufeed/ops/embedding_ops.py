"""Embedding lookups with a dense gradient, and embeddings on the host."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_int, as_tensor, flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.ops.host_embedding import HostEmbedding as HostEmbedding
from ipufeed.ops.host_embedding import (
    HostEmbeddingOptimizerSpec as HostEmbeddingOptimizerSpec,
)
from ipufeed.ops.host_embedding import (
    HostEmbeddingSGDGAOptimizerSpec as HostEmbeddingSGDGAOptimizerSpec,
)
from ipufeed.ops.host_embedding import create_host_embedding as create_host_embedding
from ipufeed.ops.rows import as_ids, check_shape, take_rows
from ipufeed.tf_types import Tensor, TensorLike


@flags_checked
def embedding_lookup(
    params: TensorLike,
    ids: TensorLike,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
    name: str | None = None,
    **kwargs: object,
) -> Tensor:
    """Returns the rows of a table with these ids.

    The gradient is a tensor of params' shape, never slices: gradients of equal ids are
    summed. Sums of 16-bit floats are computed in float32.

    Args:
        params: The table, [rows, ...], of a defined shape; a tensor or a variable. Of rank
            1 each row is a scalar.
        ids: Integers of a defined shape. An id outside of the table results in a row of
            zeros without a gradient.
        serialization_factor: A divisor of the number of rows. It does not change results:
            on an IPU the lookup is split into this number of parts.
        indices_are_sorted: A hint, without an effect here.
        name: The operations' name. A string in the place of serialization_factor is the
            name too, as in older versions.
        **kwargs: `one_hot_threshold` and `min_encoding_size` of older versions: ignored
            with a warning.

    Returns:
        ids.shape + params.shape[1:].

    Raises:
        TypeError: The ids are not integers, the factor is not an int, an argument is
            unknown, or `params` is a list of tensors.
        ValueError: The factor, or a shape that is not defined.
    """
    for other in kwargs:
        if other not in ("one_hot_threshold", "min_encoding_size"):
            raise TypeError(
                f"embedding_lookup() got an unexpected keyword argument '{other}'"
            )
        no_effect(f"embedding_lookup({other}=)", "a lookup is always a gather")
    if isinstance(serialization_factor, str):
        serialization_factor, name = 1, serialization_factor
    if indices_are_sorted:
        no_effect(
            "embedding_lookup(indices_are_sorted=)",
            "a lookup on the CPU takes ids in any order",
        )
    with tf.name_scope(name or "embedding_lookup"):
        _refuse_shards(params)
        params, ids = as_tensor("params", params), as_ids("ids", ids)
        check_shape("params", params)
        check_shape("ids", ids)
        if params.shape.rank == 0:
            raise ValueError("`params` must have rows, got a scalar.")
        rows = params.shape.as_list()[0]
        serialization_factor = as_int("serialization_factor", serialization_factor)
        if serialization_factor < 1:
            raise ValueError(
                "serialization_factor has to be at least 1, but was "
                f"{serialization_factor}."
            )
        if rows % serialization_factor:
            raise ValueError(
                f"The serialization_factor ({serialization_factor}) must divide the size "
                f"of the 0th dimension of params ({rows})."
            )
        inside = (ids >= 0) & (ids < rows)
        return take_rows(params, ids, inside)


def _refuse_shards(params: object) -> None:
    """Raises TypeError for a list of tables, which would be one of a higher rank.

    tf.nn.embedding_lookup takes one, also with a single table.
    """
    if isinstance(params, (list, tuple)) and any(map(tf.is_tensor, params)):
        raise TypeError(
            f"`params` must be one table, got a {type(params).__name__} of "
            f"{len(params)}: give the table itself, or tf.concat(params, axis=0)."
        )
