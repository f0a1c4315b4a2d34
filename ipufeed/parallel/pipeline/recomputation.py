"""Decides which tensors a backward stage recomputes, and which are kept for it."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.checks import as_numbers
from ipufeed.parallel.pipeline.traced import (
    COPIED,
    READS,
    Traced,
    can_cross,
    is_assigned,
)
from ipufeed.tf_types import Nest, Operation, Tensor, TensorLike


def repeats(tensor: Tensor, traced: Traced) -> bool:
    """Whether recomputing a tensor of a forward stage gives the same value."""
    op = tensor.op
    if op.type in READS and is_assigned(op.inputs[0]):
        return False
    if op.op_def.is_stateful and op.type not in COPIED and not _only_reads(op):
        return False
    # A tensor that only gradients use, such as zeros like a loop's list, is theirs.
    of_stage = op in traced.owners or not can_cross(tensor)
    return CHECKPOINT not in op.node_def.attr and of_stage


def _only_reads(op: Operation) -> bool:
    """Whether the only stateful ops of a loop or a branch read variables."""
    if op.type not in ("While", "If"):
        return False
    for value in op.node_def.attr.values():
        if not value.HasField("func"):
            continue
        function = op.graph._get_function(value.func.name)
        if function is None:
            return False
        for inner in function.graph.get_operations():
            if inner.op_def.is_stateful and inner.type not in (*COPIED, *READS):
                return False
    return True


# The attribute of ops whose results are kept, and not recomputed.
CHECKPOINT = "_ipufeed_checkpoint"


def recomputation_checkpoint(tensors: Nest, name: str | None = None) -> Nest:
    """Marks tensors of a pipeline's stage that are kept, while others are recomputed.

    Args:
        tensors: A tensor, or any structure of them.
        name: The name of the operations. Default: None.

    Returns:
        The marked tensors, to use in place of `tensors`.

    Raises:
        TypeError: One is of text.
        ValueError: One is not a tensor.
    """

    def mark(tensor: TensorLike) -> Tensor:
        value = as_numbers("tensors", tensor)
        marked = tf.identity(value, name=name or "recomputation_checkpoint")
        if not tf.executing_eagerly():
            marked.op._set_attr(CHECKPOINT, tf.compat.v1.AttrValue(b=True))
        return marked

    return tf.nest.map_structure(mark, tensors)
