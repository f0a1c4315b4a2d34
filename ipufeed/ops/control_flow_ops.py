"""A barrier: all of some tensors are computed before any of them is used."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from ipufeed.checks import as_numbers, flags_checked
from ipufeed.device.program.executor import executor
from ipufeed.tf_types import Nest, Tensor


@flags_checked
def barrier(
    tensors: Nest,
    insert_barrier_for_gradients: bool = False,
    name: str | None = None,
) -> Nest:
    """Delays the users of each of the tensors until all of them have been computed.

    Args:
        tensors: A structure of tensors.
        insert_barrier_for_gradients: Whether the gradients pass a barrier too.
        name: The operations' name.

    Returns:
        The tensors, in the same structure.

    Raises:
        TypeError: One is of text.
        ValueError: There are no tensors.
    """
    flat = [as_numbers("tensors", each) for each in tf.nest.flatten(tensors)]
    if not flat:
        raise ValueError("`tensors` must hold at least one tensor, got none.")

    def passed(*values: Tensor) -> Nest:
        def gradient(*coming: Tensor | None) -> list[Tensor | None]:
            given = [each for each in coming if each is not None]  # None: of integers
            if not insert_barrier_for_gradients or not given:
                return list(coming)
            behind = iter(_behind_all(given))
            return [None if each is None else next(behind) for each in coming]

        return _behind_all(list(values)), gradient

    with tf.name_scope(name or "barrier"):
        return tf.nest.pack_sequence_as(
            tensors, _as_list(tf.custom_gradient(passed)(*flat))
        )


def _as_list(values: Nest) -> list[Tensor]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _behind_all(values: list[Tensor]) -> list[Tensor]:
    # XLA drops control dependencies between operations without effects, but keeps this.
    # On the executor the operation would be compiled as a separate program.
    if executor() == "xla":
        values = list(gen_xla_ops.xla_optimization_barrier(values))
    with tf.control_dependencies(values):
        return [tf.identity(each) for each in values]
