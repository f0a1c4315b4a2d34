"""What a backward stage computes again, and what is kept for it."""

from __future__ import annotations

from typing import Any

from ipufeed.parallel.pipeline.traced import COPIED, READS, Traced, is_assigned


def repeats(tensor: Any, traced: Traced) -> bool:
    """Whether computing a tensor of a forward stage again gives the same."""
    op = tensor.op
    if op.type in READS and is_assigned(op.inputs[0], traced.graph):
        return False
    if op.op_def.is_stateful and op.type not in COPIED and not only_reads(op):
        return False
    return CHECKPOINT not in op.node_def.attr and op in traced.owners


def only_reads(op: Any) -> bool:
    """Whether a loop or a branch does nothing but read variables: it can be repeated."""
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


# Of ops whose results are kept, and not computed again.
CHECKPOINT = "_ipufeed_checkpoint"


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Tensors of a pipeline's stage that are kept, where the rest is computed again.

    Args:
        tensors: A tensor, or any structure of them.
        name: Of the operations. Default: None.

    Returns:
        The same, to be used from there on in place of `tensors`.
    """
    import tensorflow as tf

    def mark(tensor: Any) -> Any:
        marked = tf.identity(tensor, name=name or "recomputation_checkpoint")
        if not tf.executing_eagerly():
            marked.op._set_attr(CHECKPOINT, tf.compat.v1.AttrValue(b=True))
        return marked

    return tf.nest.map_structure(mark, tensors)
