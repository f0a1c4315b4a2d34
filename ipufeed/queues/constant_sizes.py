"""Explains the error of an operation whose size XLA cannot compute in advance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.python.framework import errors

# Texts of XLA, for data of an infeed and for those that a loop computes.
_BINCOUNT = re.compile(
    r"of DenseBincount operator as a compile-time constant|"
    r"op DenseBincount must be a compile-time constant"
)
_NODE = re.compile(r"\{\{node (\S*DenseBincount\S*)\}\}")


def explain_bincount(error: errors.OpError) -> None:
    """Adds the remedy to XLA's error about tf.math.bincount; others are unchanged."""
    if not _BINCOUNT.search(error.message):
        return
    found = _NODE.search(error.message)
    error._message += (
        f"\ntf.math.bincount{f' ({found[1]!r})' if found else ''} computes the size of its "
        "result from the values, also with minlength=maxlength, and a compiled program "
        "needs it in advance. With the constant size n write "
        "tf.math.unsorted_segment_sum(tf.ones_like(x), x, n), which drops values from n "
        "on."
    )
