"""Rows of a table by their ids, with a dense gradient; tables on the host."""

from __future__ import annotations

from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.ops.host_embedding import HostEmbedding as HostEmbedding
from ipufeed.ops.host_embedding import (
    HostEmbeddingOptimizerSpec as HostEmbeddingOptimizerSpec,
)
from ipufeed.ops.host_embedding import (
    HostEmbeddingSGDGAOptimizerSpec as HostEmbeddingSGDGAOptimizerSpec,
)
from ipufeed.ops.host_embedding import create_host_embedding as create_host_embedding
from ipufeed.ops.rows import take_rows


@flags_checked
def embedding_lookup(
    params: Any,
    ids: Any,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
    name: str | None = None,
) -> Any:
    """Gives the rows of a table with these ids.

    The gradient is a tensor of params' shape, never slices: an id that occurs more than
    once adds up. Sums of 16-bit floats are made in float32.

    Args:
        params: The table, [rows, ...], of a defined shape; a tensor or a variable.
        ids: Integers of a defined shape. An id outside of the table gives a row of zeros,
            and no gradient.
        serialization_factor: It divides the number of rows. It changes no result: on an
            IPU the lookup is made in that many parts.
        indices_are_sorted: A hint, without an effect here.
        name: Of the operations. Taken for it is a string in the place of
            serialization_factor, too, as in older versions.

    Returns:
        ids.shape + params.shape[1:].

    Raises:
        ValueError: The factor, or a shape that is not defined.
    """
    import tensorflow as tf

    if isinstance(serialization_factor, str):
        serialization_factor, name = 1, serialization_factor
    if indices_are_sorted:
        no_effect(
            "embedding_lookup(indices_are_sorted=)",
            "a lookup on the CPU takes ids in any order",
        )
    with tf.name_scope(name or "embedding_lookup"):
        params, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
        for tensor, which in ((params, "params"), (ids, "ids")):
            if not tensor.shape.is_fully_defined():
                raise ValueError(
                    f"The shape of `{which}` must be fully defined, got {tensor.shape}: "
                    "use set_shape, or a batch without a remainder."
                )
        if params.shape.rank == 0:
            raise ValueError("`params` must have rows, got a scalar.")
        rows = params.shape[0]
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
        inside = (ids >= 0) & (ids < tf.cast(rows, ids.dtype))
        return take_rows(params, ids, inside)
