"""Adds the remedy to XLA's errors about what it cannot compile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.python.framework import errors

_NODE = r"\{\{node (\S*DenseBincount\S*)\}\}"
# Patterns of XLA's texts, which `re` compiles at the first error, and the remedies. Those
# of bincount: for data of an infeed, and for data that a loop computes.
_REMEDIES = (
    (
        r"of DenseBincount operator as a compile-time constant|"
        r"op DenseBincount must be a compile-time constant",
        "tf.math.bincount{node} computes the size of its result from the values, also with "
        "minlength=maxlength, and a compiled program needs it in advance. With the "
        "constant size n write tf.math.unsorted_segment_sum(tf.ones_like(x), x, n), which "
        "drops values from n on.",
    ),
    (
        r"XLA compilation requires a fixed tensor list size",
        "The gradient of a loop keeps the values of each iteration, and a compiled program "
        "needs their largest number in advance: give `n` of loops.repeat, or "
        "`maximum_iterations` of the loop, as a Python int. A tf.TensorArray needs its "
        "`size`, and no `dynamic_size`.",
    ),
    (
        r"(?s)Input and output shapes of loop body do not match.*"
        r"\{\{node \S*gradients\S*/b_count",
        "The gradient of a gather in a loop of version 1 has more rows after each "
        "iteration, and a compiled loop has fixed shapes: look rows up with "
        "ipu.embedding_ops.embedding_lookup, whose gradient is dense, or call "
        "tf.compat.v1.enable_control_flow_v2() first.",
    ),
    (
        r"Input and output shapes of loop body do not match",
        "A tensor of the loop has another shape after an iteration, as `shape_invariants` "
        "allow, and a compiled loop has fixed shapes: write into a tf.TensorArray with a "
        "constant `size`, or into the rows of a tensor of the largest shape "
        "(tf.tensor_scatter_nd_update); or run the loop on the host: under "
        "`tf.device('CPU:0')`, in `compile` in `ipu.scopes.outside_compilation_scope()`.",
    ),
    (
        r"Detected unsupported operations .* on XLA_\w+: _(?:Arg|Retval) ",
        "An input or a result of the program is a string, or of another dtype that XLA "
        "does not have. A compiled program takes and returns numbers and bools: leave the "
        "strings on the host, and pass a number such as an index into a list of them.",
    ),
    (
        r"(?s)Detected unsupported operations .*ResourceSparseApply",
        "XLA does not have this optimizer's update of single rows. The gradient of a "
        "gather has them: look rows up with ipu.embedding_ops.embedding_lookup, and use "
        "nce_loss and sampled_softmax_loss of ipu.nn_ops. Their gradients are dense.",
    ),
    (
        r"Detected unsupported operations .*: Segment(?:Sum|Mean|Max|Min|Prod) \(",
        "tf.math.segment_sum, segment_mean, segment_max, segment_min and segment_prod "
        "compute the number of rows of their result from the ids, and a compiled program "
        "needs it in advance. With the constant number n write "
        "ipu.math_ops.segment_sum(data, segment_ids, n), and for the others "
        "tf.math.unsorted_segment_mean(data, segment_ids, n) and so on.",
    ),
    (
        r"Detected unsupported operations .*: \w*(?:Dataset|Iterator)\w* \(",
        "The host reads a dataset: pass `iter(dataset)` to the function and call "
        "next(iterator) in `for _ in tf.range(n):`, or give an IPUInfeedQueue to "
        "ipu.loops.repeat.",
    ),
    (
        r"Detected unsupported operations when trying to compile graph",
        "Operations that XLA does not have run on the host: in "
        "`with ipu.scopes.outside_compilation_scope():`, in the dataset, or in a function "
        "without `jit_compile=True`. In place of tf.print use "
        "ipu.internal_ops.print_tensor.",
    ),
)


def own_text(error: errors.OpError) -> str:
    """Returns an error's message without the log lines that TensorFlow adds to some.

    These may be of the errors of other programs, which ran before.
    """
    return str(error.message).partition("\nRecent warning and error logs:\n")[0]


def explain_xla(error: errors.OpError) -> None:
    """Adds the remedy to an error of XLA's compiler; others are unchanged."""
    message = own_text(error)
    for text, remedy in _REMEDIES:
        if re.search(text, message):
            found = re.search(_NODE, message)
            node = f" ({found[1]!r})" if found else ""
            error._message += "\n" + remedy.format(node=node)
            return
